"""Which partitions are loaded when: some side by side, and first those that are asked for."""

from __future__ import annotations

import asyncio
import errno
import os
import threading

import pytest

from drumlin.coordination.shards import state_partitions
from drumlin.coordination.shards.state_partitions import IsCancelled, StatePartitions
from drumlin.records.batch.corrupt_record import CorruptRecord
from drumlin.turns import give_way
from drumlin.wire.error_codes import ErrorCode, KafkaError
from rig.waiting import eventually

_COUNT = 20


class World:
    """Partitions whose reading waits until it is let go."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.loaded: list[int] = []
        self.most_at_once = 0
        self._reading = 0
        self._lock = threading.Lock()
        self.gate = threading.Event()
        self.failures: dict[int, list[Exception]] = {}
        """What the next attempts to read a partition raise."""
        self.partitions: StatePartitions[list[int], int] = StatePartitions(
            "topic", lambda _: [], self._read, self._take_over, self.loaded.append
        )

    def _read(self, partition: int, _: IsCancelled) -> int:
        with self._lock:
            self.begun.append(partition)
            self._reading += 1
            self.most_at_once = max(self.most_at_once, self._reading)
        self.gate.wait(10)
        with self._lock:
            self._reading -= 1
        if failures := self.failures.get(partition):
            raise failures.pop(0)
        return partition

    async def _take_over(self, shard: list[int], loaded: int) -> None:
        shard.append(loaded)
        await give_way()

    async def until(self, count: int) -> None:
        await eventually(lambda: len(self.begun) >= count)


def test_what_is_asked_for_is_loaded_next() -> None:
    async def run() -> None:
        world = World()
        for partition in range(_COUNT):
            world.partitions.begin(partition, 0)
        await world.until(4)
        for asked in (17, 18):
            with pytest.raises(KafkaError) as refusal:
                world.partitions.shard(asked)
            assert refusal.value.code is ErrorCode.coordinator_load_in_progress
        world.gate.set()
        for partition in range(_COUNT):
            assert await world.partitions.when_ready(partition) == [partition]
        assert sorted(world.begun[:4]) == [0, 1, 2, 3]
        # Four at a time, each in a thread: which of those notes itself first is chance.
        assert {17, 18} <= set(world.begun[4:8])
        assert world.most_at_once > 1
        assert sorted(world.loaded) == list(range(_COUNT))
        await world.partitions.close()

    asyncio.run(run())


def test_a_partition_that_comes_as_the_last_one_is_done_is_loaded_too() -> None:
    async def run() -> None:
        world = World()
        world.gate.set()
        for partition in range(_COUNT):
            world.partitions.begin(partition, 0)
            assert await world.partitions.when_ready(partition) == [partition]
        await world.partitions.close()

    asyncio.run(run())


def test_one_that_is_led_elsewhere_before_its_turn_is_not_read() -> None:
    async def run() -> None:
        world = World()
        for partition in range(_COUNT):
            world.partitions.begin(partition, 0)
        await world.until(4)
        world.partitions.end(12)
        world.partitions.begin(13, 1)
        world.gate.set()
        for partition in range(_COUNT):
            await world.partitions.when_ready(partition)
        assert 12 not in world.begun
        assert len(world.begun) == _COUNT - 1
        await world.partitions.close()

    asyncio.run(run())


def test_what_comes_while_the_broker_stops_is_not_loaded() -> None:
    """Leaders move until the end: those who stop, too, may be told that they lead."""

    async def run() -> None:
        world = World()
        world.gate.set()
        await world.partitions.close()
        world.partitions.begin(3, 0)
        with pytest.raises(KafkaError) as refusal:
            world.partitions.shard(3)
        assert refusal.value.code is ErrorCode.not_coordinator
        assert not world.begun

    asyncio.run(run())


@pytest.fixture
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_partitions, "_PAUSE_S", 0.001)


def _short() -> list[Exception]:
    return [
        OSError(errno.EMFILE, os.strerror(errno.EMFILE)),
        OSError(errno.EMFILE, os.strerror(errno.EMFILE)),
        MemoryError(),
        KafkaError(ErrorCode.kafka_storage_error),
        CorruptRecord("half of it"),
        RuntimeError("can't start new thread"),
    ]


@pytest.mark.usefixtures("short_pauses")
def test_what_could_not_be_loaded_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        world = World()
        world.gate.set()
        world.failures = {3: _short()}
        for partition in range(_COUNT):
            world.partitions.begin(partition, 7)
        assert await world.partitions.when_ready(3) is None
        with pytest.raises(KafkaError):
            world.partitions.shard(3)
        await eventually(lambda: world.loaded.count(3) == 7)
        assert world.partitions.shard(3) == [3], "what an attempt has left does not count"
        assert world.partitions.leader_epoch(3) == 7
        assert sorted(set(world.loaded)) == list(range(_COUNT))
        await world.partitions.close()

    asyncio.run(run())
    said = [each for each in caplog.messages if "cannot be loaded" in each]
    assert len(said) == 5, "the same again is not said again"


@pytest.mark.usefixtures("short_pauses")
@pytest.mark.parametrize("is_led_again", [False, True])
def test_it_is_not_tried_again_when_it_is_led_elsewhere(is_led_again: bool) -> None:
    async def run() -> None:
        world = World()
        world.gate.set()
        world.failures = {3: _short()[:1], 4: _short()[:1]}
        world.partitions.begin(3, 7)
        assert await world.partitions.when_ready(3) is None
        world.partitions.end(3)
        if is_led_again:
            world.partitions.begin(3, 9)
        world.partitions.begin(4, 7)  # it fails later, and is tried again later
        await eventually(lambda: world.begun.count(4) == 2)
        assert world.begun.count(3) == (2 if is_led_again else 1)
        await world.partitions.close()

    asyncio.run(run())


@pytest.mark.usefixtures("short_pauses")
def test_what_is_taken_over_halfway_is_loaded_anew() -> None:
    async def run() -> None:
        world = World()
        world.gate.set()
        take_over = world._take_over
        attempts = []

        async def failing(shard: list[int], loaded: int) -> None:
            await take_over(shard, loaded)
            attempts.append(loaded)
            if len(attempts) < 3:
                raise MemoryError

        world.partitions._take_over = failing
        world.partitions.begin(3, 7)
        await eventually(lambda: len(attempts) == 3 and not world.partitions.is_loading(3))
        assert world.partitions.shard(3) == [3]
        await world.partitions.close()

    asyncio.run(run())
