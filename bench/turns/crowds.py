"""What very many do at once, for `turns`: a large group's life, and connections that end together.

Each crowd is a generator: it yields what has just been done, whose turns are counted then. They
come last, as the last ones take the broker down.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any, Final, NamedTuple

from bench.turns.broker import WatchedBroker
from drumlin.wire.messages import encode_request
from rig.data.messages import build
from rig.data.raw import RawClient
from rig.waiting import wait_until

_JOIN, _SYNC, _LEAVE, _DESCRIBE, _HEARTBEAT = 3, 2, 3, 5, 1
_FETCH, _DELETE_TOPICS, _CREATE_PARTITIONS = 11, 5, 3
_PER_CONNECTION: Final = 50
_FEW: Final = 10
_LISTS: Final = 200
_NAMES: Final = 96
_LONG_MS: Final = 300_000
_SESSION_MS: Final = 60_000
_OFFSETS_TOPIC: Final = "__consumer_offsets"
_RECEIVED_S: Final = 1.0


class Done(NamedTuple):
    """What a crowd has done, and the longest turn by it: ms of processor time, and its place."""

    crowd: str
    what: str
    turn_ms: float
    place: str


Crowd = Callable[[WatchedBroker, int], Iterator[str]]


def _frame(api: str, version: int, **fields: Any) -> bytes:
    return b"".join(map(bytes, encode_request(api, version, 1, "b", build(api, version, fields))))


class _Group:
    """A classic group whose members are many on each connection; the first one is alone on its."""

    def __init__(self, broker: WatchedBroker, stack: ExitStack, count: int) -> None:
        self.name = f"crowd-{uuid.uuid4()}"
        self._first = stack.enter_context(broker.connect())
        self._number = max(1, count // 4 // _PER_CONNECTION)
        self._broker, self._stack = broker, stack
        self.connections: list[RawClient] = []
        self._ids: list[list[str]] = []
        self._first_id = ""
        self._generation = 0

    def _join(self, number: int, member_id: str = "") -> dict[str, Any]:
        """A JoinGroup; with so many different lists of protocols that all of them are kept."""
        some = number % _LISTS
        names = [f"{some}-{each}" for each in range(_NAMES)] + ["range", "roundrobin"]
        return {
            "group_id": self.name,
            "session_timeout": _SESSION_MS,
            "rebalance_timeout": _LONG_MS,
            "member_id": member_id,
            "protocol_type": "consumer",
            "protocols": [{"name": name, "metadata": bytes(10)} for name in names],
        }

    def begin(self) -> None:
        """Its first member, for which all others wait."""
        self._first_id = self._first.ask("join_group", _JOIN, **self._join(0)).member_id

    def join(self) -> None:
        self.connections = [
            self._stack.enter_context(self._broker.connect()) for _ in range(self._number)
        ]
        for number, each in enumerate(self.connections):
            places = range(number * _PER_CONNECTION, (number + 1) * _PER_CONNECTION)
            frames = [_frame("join_group", _JOIN, **self._join(place)) for place in places]
            each.send_bytes(b"".join(frames))
        expected = self._number * _PER_CONNECTION + 1
        wait_until(lambda: self._size() == expected, "all to join", 120)

    def _size(self) -> int:
        answer = self._first.ask("describe_groups", _DESCRIBE, groups=[self.name])
        return len(answer.groups[0].members)

    def rebalance(self) -> None:
        """The first member joins again, too, so all of them are answered."""
        answer = self._first.ask("join_group", _JOIN, **self._join(0, self._first_id))
        self._generation = answer.generation_id
        self._ids = [
            [each.receive("join_group", _JOIN).member_id for _ in range(_PER_CONNECTION)]
            for each in self.connections
        ]

    def sync(self) -> None:
        for each, ids in zip(self.connections, self._ids, strict=True):
            frames = [_frame("sync_group", _SYNC, **self._sync(member_id)) for member_id in ids]
            each.send_bytes(b"".join(frames))
        members = [self._first_id, *(member_id for ids in self._ids for member_id in ids)]
        shares = [{"member_id": each, "assignment": bytes(10)} for each in members]
        self._first.ask("sync_group", _SYNC, **self._sync(self._first_id, shares))
        for each in self.connections:
            for _ in range(_PER_CONNECTION):
                each.receive("sync_group", _SYNC)

    def _sync(self, member_id: str, shares: Any = ()) -> dict[str, Any]:
        return {
            "group_id": self.name,
            "generation_id": self._generation,
            "member_id": member_id,
            "assignments": shares,
        }

    def leave(self) -> None:
        members = [{"member_id": member_id} for ids in self._ids for member_id in ids]
        self._first.ask("leave_group", _LEAVE, group_id=self.name, members=members)

    def disconnect(self) -> None:
        for each in self.connections:
            each.close()
        time.sleep(_RECEIVED_S)


def _classic_group(broker: WatchedBroker, count: int) -> Iterator[str]:
    """Most of what a large classic group does, once."""
    with ExitStack() as stack:
        group = _Group(broker, stack, count)
        group.begin()
        group.join()
        yield "all join"
        group.rebalance()
        yield "all are told of the generation"
        group.sync()
        yield "all are assigned something"
        group.leave()
        yield "all leave"


def _closed_joining(broker: WatchedBroker, count: int) -> Iterator[str]:
    with ExitStack() as stack:
        group = _Group(broker, stack, count)
        group.begin()
        group.join()
        yield "all join"
        group.disconnect()
        yield "all connections close while they wait"


def _closed_fetching(broker: WatchedBroker, count: int) -> Iterator[str]:
    """Many who wait for a record in one partition, and a few who do for one in any of all."""
    with ExitStack() as stack:
        many = [stack.enter_context(broker.connect()) for _ in range(max(1, count // 200))]
        for each in many:
            each.send_bytes(_fetch(broker, 1) * _PER_CONNECTION)
        few = [stack.enter_context(broker.connect()) for _ in range(2)]
        for each in few:
            each.send_bytes(_fetch(broker, broker.world.partitions) * _FEW)
        time.sleep(_RECEIVED_S * 5)
        yield "all fetch"
        for each in (*many, *few):
            each.close()
        time.sleep(_RECEIVED_S)
        yield "all connections close while they wait"


def _fetch(broker: WatchedBroker, count: int) -> bytes:
    return _frame(
        "fetch",
        _FETCH,
        max_wait=_LONG_MS,
        min_bytes=1,
        session_epoch=-1,
        topics=[
            {
                "topic": broker.world.names["topic"][0],
                "partitions": [
                    {"partition": each, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
                    for each in range(count)
                ],
            }
        ],
    )


def _closed_idle(broker: WatchedBroker, count: int) -> Iterator[str]:
    clients = [broker.connect() for _ in range(max(1, count // 40))]
    time.sleep(_RECEIVED_S)
    for each in clients:
        each.close()
    time.sleep(_RECEIVED_S)
    yield "all connections close"


def _consumer_group(broker: WatchedBroker, count: int) -> Iterator[str]:
    """The target assignment changes for everybody, as there are twice as many partitions."""
    name, topic = f"crowd-{uuid.uuid4()}", broker.world.names["topic"][0]
    members = [str(uuid.uuid4()) for _ in range(max(2, count // 20))]
    with broker.connect() as client:

        def beat(member_id: str, epoch: int) -> Any:
            return client.ask(
                "consumer_group_heartbeat",
                _HEARTBEAT,
                group_id=name,
                member_id=member_id,
                member_epoch=epoch,
                rebalance_timeout=_LONG_MS,
                subscribed_topic_names=[topic],
                topic_partitions=[] if epoch == 0 else None,
            )

        epochs = {each: beat(each, 0).member_epoch for each in members}
        yield "all join"
        client.ask(
            "create_partitions",
            _CREATE_PARTITIONS,
            timeout=_SESSION_MS,
            topics=[{"name": topic, "count": 2 * broker.world.partitions, "assignments": None}],
        )
        broker.longest_turn()
        for each in members:
            beat(each, epochs[each])
        yield "all hear of more partitions"


def _coordinator_goes(broker: WatchedBroker, count: int) -> Iterator[str]:
    """What is deleted is coordinated nowhere: neither are groups that wait, or are large."""
    with ExitStack() as stack:
        group = _Group(broker, stack, count)
        group.begin()
        group.join()
        with broker.connect() as client:
            client.ask(
                "delete_topics",
                _DELETE_TOPICS,
                topic_names=[_OFFSETS_TOPIC],
                timeout=_SESSION_MS,
            )
        time.sleep(_RECEIVED_S)
        yield "the topic of offsets is deleted"


def _broker_stops(broker: WatchedBroker, count: int) -> Iterator[str]:
    with ExitStack() as stack:
        group = _Group(broker, stack, count)
        with broker.connect() as client:
            broker.find_coordinator(client, 0, group.name)
        group.begin()
        group.join()
        yield "all join"
        broker.stop()
        yield "the broker stops"


#: By name, in the order in which they come.
CROWDS: Final[Mapping[str, Crowd]] = {
    "classic_group": _classic_group,
    "closed_joining": _closed_joining,
    "closed_fetching": _closed_fetching,
    "closed_idle": _closed_idle,
    "consumer_group": _consumer_group,
    "coordinator_goes": _coordinator_goes,
    "broker_stops": _broker_stops,
}
