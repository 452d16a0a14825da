"""Members of share groups, and what scripts need besides: groups, records, transactions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from differential.peer import Peer
from drumlin.storage.directory.partition_metadata import encode_uuid
from drumlin.wire.error_codes import ErrorCode
from rig.data.batches import batch
from rig.data.messages import render
from rig.data.raw import RawClient
from rig.waiting import wait_until

_WAIT_MS = 4000


class Member:
    """A member of a share group, with a session that counts its requests."""

    def __init__(self, peer: Peer, group: str, topic: str, name: str, partitions: int = 1) -> None:
        self._peer = peer
        self._group = group
        self._topic_id = peer.topic_id(topic)
        self._partitions = range(partitions)
        self.name = peer.keep(name)
        self.epoch = 0

    def fetch(
        self, *acknowledged: tuple[int, int, Sequence[int]], epoch: int | None = None, **fields: Any
    ) -> list[tuple[int, int]]:
        """Fetch, and acknowledge (first, last, types) in partition 0; the offsets acquired."""
        asked = self._fetch_request(acknowledged, self._take_epoch(epoch))
        answer = self._peer.ask("share_fetch", self._peer.version, **asked | fields)
        return _acquired(answer)

    def fetch_at_last(self) -> None:
        """Fetch until something comes, and compare that: when Kafka wakes a fetch varies."""
        version = self._peer.version

        def given() -> Any:
            asked = self._fetch_request((), self._take_epoch(None)) | {"max_wait": 200}
            answer = self._peer.ask_quietly("share_fetch", version, **asked)
            return answer if _acquired(answer) else None

        answer = wait_until(given, f"records for {self.name} on {self._peer.name}")
        self._peer.record("share_fetch", version, render(answer))

    def _fetch_request(
        self, acknowledged: Sequence[tuple[int, int, Sequence[int]]], epoch: int
    ) -> dict[str, Any]:
        partitions = [
            {
                "partition_index": index,
                "acknowledgement_batches": batches(acknowledged) if index == 0 else [],
            }
            for index in self._partitions
        ]
        return {
            "group_id": self._group,
            "member_id": self.name,
            "share_session_epoch": epoch,
            "max_wait": _WAIT_MS,
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "max_records": 500,
            "batch_size": 500,
            "topics": [{"topic_id": self._topic_id, "partitions": partitions}],
            "forgotten_topics_data": [],
        }

    def acknowledge(
        self,
        *acknowledged: tuple[int, int, Sequence[int]],
        epoch: int | None = None,
        **fields: Any,
    ) -> Any:
        epoch = self._take_epoch(epoch)
        topics = [
            {
                "topic_id": self._topic_id,
                "partitions": [
                    {"partition_index": 0, "acknowledgement_batches": batches(acknowledged)}
                ],
            }
        ]
        return self._peer.ask(
            "share_acknowledge",
            self._peer.version,
            **{
                "group_id": self._group,
                "member_id": self.name,
                "share_session_epoch": epoch,
                "topics": topics,
            }
            | fields,
        )

    def _take_epoch(self, epoch: int | None) -> int:
        if epoch is not None:
            return epoch
        self.epoch += 1
        return self.epoch - 1


def _acquired(answer: Any) -> list[tuple[int, int]]:
    return [
        (each.first_offset, each.last_offset)
        for topic in getattr(answer, "responses", ())
        for partition in topic.partitions
        for each in partition.acquired_records
    ]


def batches(acknowledged: Sequence[tuple[int, int, Sequence[int]]]) -> list[dict[str, Any]]:
    return [
        {"first_offset": first, "last_offset": last, "acknowledge_types": list(types)}
        for first, last, types in acknowledged
    ]


def group_of(peer: Peer, topic: str, partitions: int = 1, start_offset: int = 0) -> str:
    """Set-up: a share group that begins at `start_offset`."""
    group = peer.unique("group")
    initial = [
        {"partition": index, "state_epoch": 1, "start_offset": start_offset}
        for index in range(partitions)
    ]
    topics = [{"topic_id": peer.topic_id(topic), "partitions": initial}]
    keys = [f"{group}:{encode_uuid(peer.topic_id(topic))}:{index}" for index in range(partitions)]

    def is_there() -> bool:
        found = client.ask("find_coordinator", 6, key_type=2, coordinator_keys=keys)
        if any(each.error_code != ErrorCode.none for each in found.coordinators):
            return False
        answer = client.ask("initialize_share_group_state", 0, group_id=group, topics=topics)
        return all(
            each.error_code == ErrorCode.none
            for result in answer.results
            for each in result.partitions
        )

    with RawClient(peer.port, "setup") as client:
        wait_until(is_there, f"the state of {group} on {peer.name}")
    return group


def read_state(peer: Peer, topic: str, group: str) -> None:
    """What is kept of partition 0 by now."""
    partitions = [{"partition": 0, "leader_epoch": 0}]
    topics = [{"topic_id": peer.topic_id(topic), "partitions": partitions}]
    peer.ask("read_share_group_state", 0, group_id=group, topics=topics)


def fill(peer: Peer, topic: str, *sizes: int, partition: int = 0) -> None:
    """Set-up: batches with these numbers of records."""
    for size in sizes:
        peer.produce(topic, *(b"v" * 10 for _ in range(size)), partition=partition)


def configure(peer: Peer, group: str, **configs: str) -> None:
    """Set-up: a group's own settings."""
    changes = [
        {"name": key.replace("_", "."), "config_operation": 0, "value": value}
        for key, value in configs.items()
    ]
    resource = {"resource_type": 32, "resource_name": group, "configs": changes}
    peer.ask("incremental_alter_configs", 1, resources=[resource], validate_only=False)
    peer.settle()


class Producer:
    """Set-up: a transactional producer of the protocol before KIP-890."""

    def __init__(self, peer: Peer, topic: str) -> None:
        self._topic = topic
        self._id = peer.unique("producer")
        self._sequence = 0
        self._client = RawClient(peer.port, "setup")

        def begin() -> Any:
            self._client.ask("find_coordinator", 4, key_type=1, coordinator_keys=[self._id])
            answer = self._client.ask(
                "init_producer_id",
                4,
                transactional_id=self._id,
                transaction_timeout=60_000,
                producer_id=-1,
                producer_epoch=-1,
            )
            return answer if answer.error_code == ErrorCode.none else None

        begun = wait_until(begin, f"a producer id on {peer.name}")
        self._producer = {"producer_id": begun.producer_id, "producer_epoch": begun.producer_epoch}

    def send(self, size: int) -> None:
        def is_added() -> bool:
            answer = self._client.ask(
                "add_partitions_to_txn",
                3,
                v3_and_below_transactional_id=self._id,
                v3_and_below_producer_id=self._producer["producer_id"],
                v3_and_below_producer_epoch=self._producer["producer_epoch"],
                v3_and_below_topics=[{"name": self._topic, "partitions": [0]}],
            )
            (result,) = answer.results_by_topic_v3_and_below[0].results_by_partition
            return bool(result.partition_error_code == ErrorCode.none)

        wait_until(is_added, "the partition to be in the transaction")
        records = batch(
            *[b"v" * 10] * size,
            **self._producer,
            base_sequence=self._sequence,
            extra_attributes=0x10,
        )
        self._sequence += size
        data = {"name": self._topic, "partition_data": [{"index": 0, "records": records}]}
        answer = self._client.ask(
            "produce", 9, transactional_id=self._id, acks=-1, timeout=10_000, topic_data=[data]
        )
        assert answer.responses[0].partition_responses[0].error_code == ErrorCode.none

    def end(self, *, committed: bool) -> None:
        asked = {"transactional_id": self._id, "committed": committed}
        answer = self._client.ask("end_txn", 3, **asked, **self._producer)
        assert answer.error_code == ErrorCode.none
