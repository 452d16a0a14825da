"""Requests that cost a broker far more than the client that sends them."""

from __future__ import annotations

import itertools
import time
import uuid
from typing import Any

from bench.brokers import require_no_error
from bench.load import request_frame
from bench.offset_commits import find_coordinator
from bench.stalls.neighbour import AskingNeighbour, Neighbour
from rig.data.raw import Closed

_ENTRIES = 200_000
_NAMES = 10_000
#: A subscription of version 0 to no topic, with a kilobyte of the member's own.
_SUBSCRIPTION = bytes(6) + (1000).to_bytes(4, "big") + b"m" * 1000
_SESSION_MS = 300_000
_LATEST = -1
#: The longest pattern that Apache Kafka takes; every part of it stands for hundreds of ranges.
_PATTERN = r"\pL" * 1365
_DESCRIBE_CONFIGS, _FETCH, _JOIN_GROUP, _SYNC_GROUP = 4, 12, 9, 5
_HELD_MS = 1000
_ATTEMPTS = 50
_BEHIND = 20
_RESOURCES = 100
_TOPIC_RESOURCE = 2
_numbers = itertools.count()


class _ManyEntries(AskingNeighbour):
    """Names every partition of a wide topic over and over."""

    def times(self) -> range:
        return range(max(1, self.place.scaled(_ENTRIES) // self.place.wide))


class ListOffsetsEntries(_ManyEntries):
    """ListOffsets with 200,000 entries: a client gone wrong, or an attack."""

    name = "list_offsets"

    def frame(self) -> bytes:
        partitions = [
            {"partition_index": each, "current_leader_epoch": -1, "timestamp": _LATEST}
            for each in range(self.place.wide)
        ]
        topics = [{"name": self.place.wide_topic, "partitions": partitions} for _ in self.times()]
        return request_frame("list_offsets", 8, replica_id=-1, topics=topics)


class LeaderEpochEntries(_ManyEntries):
    """OffsetForLeaderEpoch with 200,000 entries: likewise."""

    name = "leader_epochs"

    def frame(self) -> bytes:
        partitions = [
            {"partition": each, "current_leader_epoch": -1, "leader_epoch": 0}
            for each in range(self.place.wide)
        ]
        topics = [{"topic": self.place.wide_topic, "partitions": partitions} for _ in self.times()]
        return request_frame("offset_for_leader_epoch", 4, replica_id=-1, topics=topics)


class ProducersEntries(_ManyEntries):
    """DescribeProducers with 200,000 entries: likewise."""

    name = "describe_producers"

    def frame(self) -> bytes:
        indexes = list(range(self.place.wide))
        topics = [
            {"name": self.place.wide_topic, "partition_indexes": indexes} for _ in self.times()
        ]
        return request_frame("describe_producers", 0, topics=topics)


class OneGroupOften(AskingNeighbour):
    """DescribeGroups that names one group 10,000 times: an answer far larger than its question."""

    name = "describe_groups"

    def frame(self) -> bytes:
        group_id = f"described-{next(_numbers)}"
        find_coordinator(self.broker, group_id)
        self._join(group_id)
        names = [group_id] * self.place.scaled(_NAMES)
        return request_frame("describe_groups", 5, groups=names)

    def _join(self, group_id: str) -> None:
        fields: dict[str, Any] = {
            "group_id": group_id,
            "session_timeout": _SESSION_MS,
            "rebalance_timeout": _SESSION_MS,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": _SUBSCRIPTION}],
        }
        member_id = ""
        with self.place.connect() as client:
            for _ in range(_ATTEMPTS):
                answer = client.ask("join_group", _JOIN_GROUP, member_id=member_id, **fields)
                member_id = answer.member_id
                if answer.error_code == 0:
                    break
                time.sleep(0.1)  # the coordinator loads, or the member has its id now
            require_no_error(answer)
            client.ask(
                "sync_group",
                _SYNC_GROUP,
                group_id=group_id,
                generation_id=answer.generation_id,
                member_id=member_id,
                protocol_type="consumer",
                protocol_name="range",
                assignments=[{"member_id": member_id, "assignment": b""}],
            )


class PatternOfTransactions(AskingNeighbour):
    r"""ListTransactions with the pattern `\pL` 1,365 times over: the dearest one that is taken."""

    name = "regex_transactions"

    def frame(self) -> bytes:
        return request_frame(
            "list_transactions", 2, transactional_id_pattern=_PATTERN, duration_filter=-1
        )


class PatternOfTopics(Neighbour):
    r"""ConsumerGroupHeartbeat with such a pattern, from a new member each time."""

    name = "regex_members"

    def prepare(self) -> None:
        self._group_id = f"patterns-{next(_numbers)}"
        find_coordinator(self.broker, self._group_id)
        self._client = self.place.connect()

    def act(self) -> None:
        self._client.ask(
            "consumer_group_heartbeat",
            1,
            group_id=f"{self._group_id}-{next(_numbers)}",
            member_id=str(uuid.uuid4()),
            member_epoch=0,
            rebalance_timeout=_SESSION_MS,
            subscribed_topic_regex=_PATTERN,
            topic_partitions=[],
        )

    def close(self) -> None:
        self._client.close()


class BehindHeldFetch(Neighbour):
    """Large DescribeConfigs after a Fetch that waits: answers that may not be sent yet."""

    name = "behind_fetch"

    def prepare(self) -> None:
        topic = self.place.led_topic(1)
        self._fetch = request_frame(
            "fetch",
            _FETCH,
            replica_id=-1,
            max_wait=_HELD_MS,
            min_bytes=1,
            max_bytes=1 << 20,
            session_id=0,
            session_epoch=-1,
            topics=[
                {
                    "topic": topic,
                    "partitions": [
                        {
                            "partition": 0,
                            "current_leader_epoch": -1,
                            "fetch_offset": 0,
                            "last_fetched_epoch": -1,
                            "log_start_offset": -1,
                            "partition_max_bytes": 1 << 20,
                        }
                    ],
                }
            ],
        )
        resource = {
            "resource_type": _TOPIC_RESOURCE,
            "resource_name": topic,
            "configuration_keys": None,
        }
        self._describe = request_frame(
            "describe_configs",
            _DESCRIBE_CONFIGS,
            resources=[resource] * self.place.scaled(_RESOURCES),
            include_synonyms=True,
            include_documentation=True,
        )

    def act(self) -> None:
        try:
            with self.place.connect() as client:
                client.send_bytes(self._fetch + self._describe * _BEHIND)
                for _ in range(1 + _BEHIND):
                    client.receive_frame()
        except Closed:
            return  # it may refuse


ROWS: tuple[type[Neighbour], ...] = (
    ListOffsetsEntries,
    LeaderEpochEntries,
    ProducersEntries,
    OneGroupOften,
    PatternOfTransactions,
    PatternOfTopics,
    BehindHeldFetch,
)
