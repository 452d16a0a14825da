"""Fetch requests recognised by their bytes are answered as they are when they are parsed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from drumlin.broker.fetch_lane import FetchLane

from drumlin.broker.broker import Broker
from drumlin.broker.dispatched import Dispatched
from drumlin.broker.router import Router
from drumlin.clock import SystemClock
from drumlin.config.broker import BrokerConfig
from drumlin.replication.partition import Partition
from drumlin.wire.messages import encode_request, schema_versions
from rig.messages import build
from storage.samples import NOW_MS, from_producer, marker, prepared

_TOPIC = "fetched"
_BATCHES = 30
_RECORDS = 4  # in a batch
_END = _BATCHES * _RECORDS
_VERSIONS = range(5, schema_versions("fetch")[1] + 1)


class Peer:
    """What a handler sees of a connection."""

    def __init__(self) -> None:
        self.lanes: dict[bytes, Any] = {}
        self.peer_host = "127.0.0.1"
        self.listener_name = "PLAINTEXT"


class Fixture:
    """A broker without sockets, and requests to it."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.router = Router(broker)
        self.partition = broker.partitions.get(_TOPIC, 0)

    def frame(self, version: int, offset: int, number: int = 1, **fields: Any) -> memoryview:
        part = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1000}
        part |= {"current_leader_epoch": -1, "last_fetched_epoch": -1, "log_start_offset": -1}
        part |= {name: fields.pop(name) for name in list(fields) if name in part}
        topic = {
            "topic": _TOPIC,
            "topic_id": self.broker.metadata.image.topics[_TOPIC].topic_id,
            "partitions": [part],
        }
        limits = {"replica_id": -1, "max_bytes": 1 << 20, "min_bytes": 1, "session_epoch": -1}
        message = build("fetch", version, limits | {"topics": [topic]} | fields)
        parts = encode_request("fetch", version, number, "tester", message)
        return memoryview(b"".join(parts)[4:])

    def ordinary(self, frame: memoryview) -> bytes:
        return _taken(self.router.dispatch(Peer(), frame))

    def lane_of(self, frame: memoryview) -> FetchLane | None:
        """The lane that a connection has after this request."""
        peer = Peer()
        _taken(self.router.dispatch(peer, frame))
        return next(iter(peer.lanes.values()), None)

    def lane(self, frame: memoryview) -> FetchLane:
        lane = self.lane_of(frame)
        assert lane is not None
        return lane


def _taken(dispatched: Any) -> bytes:
    """The bytes of an answer, whose files are let go."""
    assert dispatched is not None
    content = []
    for part in dispatched.parts:
        if hasattr(part, "fileno"):
            content.append(part.read())
            part.release()
        else:
            content.append(bytes(part))
    frame = b"".join(content)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    return frame


Scenario = Callable[[Fixture], Coroutine[Any, Any, None]]


@pytest.fixture
def run(tmp_path: Path) -> Callable[[Scenario], None]:
    async def run(scenario: Scenario) -> None:
        properties = {"log.dirs": str(tmp_path), "listeners": "PLAINTEXT://127.0.0.1:0"}
        broker = await Broker.start(BrokerConfig.load(properties), SystemClock())
        try:
            await broker.metadata.create_topic(_TOPIC, [[1]], {})
            fixture = Fixture(broker)
            for _ in range(_BATCHES):
                fixture.partition.append_as_leader(prepared(_RECORDS), 1, NOW_MS)
            await scenario(fixture)
        finally:
            await broker.stop()

    return lambda scenario: asyncio.run(run(scenario))


def test_the_same_answers_as_without(run: Callable[[Scenario], None]) -> None:
    async def scenario(fixture: Fixture) -> None:
        for version in _VERSIONS:
            for limits in (
                {},
                {"isolation_level": 1},
                {"partition_max_bytes": 10},
                {"max_bytes": 50_000, "partition_max_bytes": 100_000, "min_bytes": 100},
                {"current_leader_epoch": fixture.partition.leader_epoch},
            ):
                lane = fixture.lane(fixture.frame(version, 0, **limits))
                for offset in (0, 1, 4, 57, 100, _END - 1):
                    frame = fixture.frame(version, offset, 7 + offset, **limits)
                    assert lane.recognises(frame)
                    assert _taken(lane.dispatch(frame)) == fixture.ordinary(frame)

    run(scenario)


def test_what_is_not_ordinary_goes_the_ordinary_way(run: Callable[[Scenario], None]) -> None:
    async def scenario(fixture: Fixture) -> None:
        frame = fixture.frame
        lane = fixture.lane(frame(17, 0, min_bytes=200))
        for other in (
            frame(17, _END, min_bytes=200),  # nothing there yet
            frame(17, _END - 1, min_bytes=200),  # not enough
            frame(17, _END + 1, min_bytes=200),
            frame(17, -1, min_bytes=200),
            frame(16, 0, min_bytes=200),
            frame(17, 0, min_bytes=201),
            frame(17, 0, min_bytes=200, session_epoch=0),
            frame(17, 0, min_bytes=200)[:-1],
        ):
            assert lane.dispatch(other) is None
        assert fixture.lane_of(frame(17, 0, last_fetched_epoch=1)) is None
        assert fixture.lane_of(frame(17, 0, session_epoch=0)) is None
        assert fixture.lane_of(frame(17, 0, partition=1)) is None
        assert fixture.lane_of(frame(4, 0)) is None

    run(scenario)


def test_a_lane_ends_with_its_partition(run: Callable[[Scenario], None]) -> None:
    async def scenario(fixture: Fixture) -> None:
        frame = fixture.frame(12, 0, current_leader_epoch=fixture.partition.leader_epoch)
        lane = fixture.lane(frame)
        fixture.partition.leader_epoch += 1
        assert lane.dispatch(frame) is None
        fixture.partition.leader_epoch -= 1
        _taken(lane.dispatch(frame))
        fixture.broker.partitions.remove(_TOPIC, 0)
        assert lane.dispatch(frame) is None
        fixture.broker.partitions.add(fixture.partition)

    run(scenario)


def test_the_next_topic_of_a_name_has_a_lane_of_its_own(run: Callable[[Scenario], None]) -> None:
    """The one before would recognise its requests, and keep a log alive that is gone."""

    async def scenario(fixture: Fixture) -> None:
        frame = fixture.frame(12, 0)
        peer: Any = Peer()
        for _ in range(2):
            _taken(fixture.router.dispatch(peer, frame))
        (before,) = peer.lanes.values()
        one = fixture.partition
        other = Partition(one.log, one.leader_epoch, 1, 1)
        fixture.broker.partitions.remove(_TOPIC, 0)
        fixture.broker.partitions.add(other)
        _taken(fixture.router.dispatch(peer, frame))
        (after,) = peer.lanes.values()
        assert after is not before
        assert before.is_over
        assert not after.is_over
        assert after.waiting_room is other.waiting

    run(scenario)


def test_aborted_transactions_are_named_in_the_ordinary_way(
    run: Callable[[Scenario], None],
) -> None:
    async def scenario(fixture: Fixture) -> None:
        partition, frame = fixture.partition, fixture.frame(17, 0, isolation_level=1)
        lane = fixture.lane(frame)
        batch = from_producer(0, is_transactional=True)
        partition.append_as_leader(batch, 1, NOW_MS)
        _taken(lane.dispatch(frame))  # undecided: the reading ends in front of it
        assert lane.dispatch(fixture.frame(17, _END, isolation_level=1)) is None
        partition.append_internal(marker(commit=False), NOW_MS)
        assert lane.dispatch(fixture.frame(17, _END, isolation_level=1)) is None

    run(scenario)


class _Delivered:
    """Takes the answer of a postponed request."""

    def __init__(self, dispatched: Any) -> None:
        assert dispatched is not None
        assert dispatched.lets_pass
        self.postponed = dispatched.postponed
        self.answers: list[Any] = []
        self._is_there = asyncio.Event()
        self.postponed.start(self._take)

    def _take(self, parts: list[Any] | None) -> None:
        self.answers.append(parts)
        self._is_there.set()

    async def parts(self) -> list[Any] | None:
        await asyncio.wait_for(self._is_there.wait(), 20)
        (answer,) = self.answers
        return answer


def test_a_fetch_waits_for_what_comes_next(run: Callable[[Scenario], None]) -> None:
    async def scenario(fixture: Fixture) -> None:
        partition = fixture.partition
        waits = {"max_wait": 60_000, "min_bytes": 100}
        lane = fixture.lane(fixture.frame(17, 0, **waits))
        frame = fixture.frame(17, _END, **waits)
        waiting = _Delivered(lane.dispatch(frame))
        appended = 0
        while appended < 100:
            batch = prepared(1)
            partition.append_as_leader(batch, 1, NOW_MS)
            appended += len(batch.buffer)
        assert waiting.answers == []  # not in the midst of an append
        fixture.broker.wakeups.finish()
        parts = await waiting.parts()
        answer = _taken(Dispatched(parts))
        assert answer == fixture.ordinary(frame)
        assert len(partition.waiting) == 0

    run(scenario)


def test_a_fetch_is_answered_when_its_time_is_over(run: Callable[[Scenario], None]) -> None:
    async def scenario(fixture: Fixture) -> None:
        for version in _VERSIONS:
            lane = fixture.lane(fixture.frame(version, 0, max_wait=30))
            waiting = _Delivered(lane.dispatch(fixture.frame(version, _END, max_wait=30)))
            at_once = fixture.frame(version, _END, max_wait=0)
            assert _taken(Dispatched(await waiting.parts())) == fixture.ordinary(at_once)
        assert len(fixture.partition.waiting) == 0

    run(scenario)


def test_a_waiting_fetch_sees_that_its_partition_is_gone(run: Callable[[Scenario], None]) -> None:
    async def scenario(fixture: Fixture) -> None:
        lane = fixture.lane(fixture.frame(17, 0, max_wait=60_000))
        waiting = _Delivered(lane.dispatch(fixture.frame(17, _END, max_wait=60_000)))
        fixture.broker.partitions.remove(_TOPIC, 0)
        assert await waiting.parts() is None  # the ordinary way names the error
        fixture.broker.partitions.add(fixture.partition)

    run(scenario)


def test_nobody_is_left_waiting_for_a_peer_that_is_gone(run: Callable[[Scenario], None]) -> None:
    async def scenario(fixture: Fixture) -> None:
        lane = fixture.lane(fixture.frame(17, 0, max_wait=60_000))
        cancelled = [
            _Delivered(lane.dispatch(fixture.frame(17, _END, max_wait=60_000))) for _ in range(2)
        ]
        cancelled[0].postponed.cancel()
        assert len(fixture.partition.waiting) == 1
        fixture.partition.append_as_leader(prepared(1), 1, NOW_MS)
        cancelled[1].postponed.cancel()  # between being woken and being answered
        fixture.broker.wakeups.finish()
        assert [each.answers for each in cancelled] == [[], []]
        assert len(fixture.partition.waiting) == 0

    run(scenario)
