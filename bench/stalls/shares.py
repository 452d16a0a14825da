"""Share groups: many members that join, and records that are locked one by one."""

from __future__ import annotations

import itertools
import uuid
from typing import Any

from bench.brokers import require_no_error
from bench.load import Load, batch_of, first_answer
from bench.offset_commits import find_coordinator
from bench.produce import produce_frame
from bench.stalls.neighbour import GROUP_RESOURCE, Neighbour
from rig.data.raw import RawClient
from rig.waiting import wait_until

_MEMBERS = 200
_PARTITIONS = 1000
_IDLE_MEMBERS = 20
_LOCKS = 1000
_IDLE_MS = 1500  # longer than locks last: see `PAIRS`
_HEARTBEAT, _FETCH, _ACKNOWLEDGE = 1, 1, 1
_LEAVE = -1
_LIMIT_S = 60
_ACCEPT = 1
_AGAIN = ("coordinator_load_in_progress", "not_coordinator", "coordinator_not_available")
_numbers = itertools.count()


def _heartbeat(client: RawClient, group: str, member: str, epoch: int, topic: str) -> None:
    def is_answered() -> bool:
        answer = client.ask(
            "share_group_heartbeat",
            _HEARTBEAT,
            group_id=group,
            member_id=member,
            member_epoch=epoch,
            subscribed_topic_names=[topic] if epoch == 0 else None,
        )
        if answer.error_code.name in _AGAIN:
            return False
        require_no_error(answer)
        return True

    wait_until(is_answered, f"a place in {group}", _LIMIT_S)


class MembersJoin(Neighbour):
    """200 members join a share group on 1,000 partitions: a deployment of workers."""

    name = "share_join"
    pair = "shares"
    acts_once = True

    def prepare(self) -> None:
        self._topic = self.place.led_topic(self.place.scaled(_PARTITIONS))
        self._client = self.place.connect()

    def before_round(self) -> None:
        self._group = f"joined-{next(_numbers)}"
        find_coordinator(self.broker, self._group)
        self._members = [str(uuid.uuid4()) for _ in range(self.place.scaled(_MEMBERS))]

    def act(self) -> None:
        for member in self._members:
            _heartbeat(self._client, self._group, member, 0, self._topic)

    def after_round(self) -> None:
        for member in self._members:
            _heartbeat(self._client, self._group, member, _LEAVE, self._topic)

    def close(self) -> None:
        self._client.close()


class _Member:
    """A member of a share group, which fetches from one partition."""

    def __init__(self, client: RawClient, group: str, topic_id: Any) -> None:
        self.client = client
        self.id = str(uuid.uuid4())
        self._group = group
        self._topic_id = topic_id
        self._epoch = 0

    def send_fetch(self, max_wait_ms: int) -> None:
        self._send(
            "share_fetch",
            [],
            max_wait=max_wait_ms,
            min_bytes=1,
            max_bytes=1 << 20,
            max_records=_LOCKS,
            batch_size=_LOCKS,
            forgotten_topics_data=[],
        )

    def receive_fetch(self) -> list[int]:
        """The offsets that it has now."""
        answer = self.client.receive("share_fetch", _FETCH)
        if answer.error_code != 0:
            raise RuntimeError(f"a ShareFetch was refused: {answer}")
        self._epoch += 1
        return [
            offset
            for topic in answer.responses
            for partition in topic.partitions
            for each in partition.acquired_records
            for offset in range(each.first_offset, each.last_offset + 1)
        ]

    def accept(self, offset: int) -> None:
        said = {"first_offset": offset, "last_offset": offset, "acknowledge_types": [_ACCEPT]}
        self._send("share_acknowledge", [said])
        self.client.receive("share_acknowledge", _ACKNOWLEDGE)
        self._epoch += 1

    def _send(self, api: str, said: list[dict[str, Any]], **fields: Any) -> None:
        partition = {"partition_index": 0, "acknowledgement_batches": said}
        self.client.send(
            api,
            _FETCH,
            group_id=self._group,
            member_id=self.id,
            share_session_epoch=self._epoch,
            topics=[{"topic_id": self._topic_id, "partitions": [partition]}],
            **fields,
        )


class RecordsLocked(Neighbour):
    """1,000 records acquired and accepted one by one, beside 20 idle members: a queue of jobs."""

    name = "share_locks"
    pair = "shares"

    def prepare(self) -> None:
        self._topic = self.place.led_topic(1)
        group = f"locked-{next(_numbers)}"
        find_coordinator(self.broker, group)
        self.place.alter(GROUP_RESOURCE, group, share_auto_offset_reset="earliest")
        topic_id = self.broker.topic_id(self._topic)
        self._members = [
            _Member(self.place.connect(), group, topic_id) for _ in range(1 + _IDLE_MEMBERS)
        ]
        for each in self._members:
            _heartbeat(each.client, group, each.id, 0, self._topic)
        frame = produce_frame(self.broker, self._topic, batch_of(300))
        answer, _ = first_answer(self.broker.port, frame)
        self._load = Load(self.broker.dial, [frame], 16, len(answer))
        # The first fetch opens the session; the group learns of its partition in its own time.
        wait_until(self._acquire_all, f"{self.broker.name} to share records", 60)

    def _acquire_all(self) -> list[int]:
        offsets: list[int] = []
        while True:
            self._members[0].send_fetch(100)
            more = self._members[0].receive_fetch()
            for offset in more:
                self._members[0].accept(offset)
            offsets += more
            if not more:
                return offsets

    def act(self) -> None:
        worker, *idle = self._members
        self._load.run(60, self.place.scaled(_LOCKS))
        worker.send_fetch(_IDLE_MS)
        offsets = worker.receive_fetch()
        for each in idle:
            each.send_fetch(_IDLE_MS)
        for offset in offsets:
            worker.accept(offset)
        for each in idle:
            for offset in each.receive_fetch():
                each.accept(offset)

    def close(self) -> None:
        self._load.close()
        for each in self._members:
            each.client.close()


ROWS: tuple[type[Neighbour], ...] = (MembersJoin, RecordsLocked)
