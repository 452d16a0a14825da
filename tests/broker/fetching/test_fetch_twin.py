"""Random fetches and random histories of sessions are answered as in the simplest way."""

from __future__ import annotations

import errno
import random
from pathlib import Path
from typing import Any

import pytest

from broker.fetches import TOPIC, VERSIONS, Fetches, begin_epoch, with_broker
from broker.fetching.slow_fetches import SlowFetches
from drumlin.wire.messages import parse_response
from rig.depth import seeds
from storage.samples import NOW_MS, from_producer, marker, prepared

_PARTITIONS = 6
_OTHER = "other"


class World:
    """A broker in which things happen, and its reader."""

    def __init__(self, fetches: Fetches, seed: int) -> None:
        self.fetches = fetches
        self.slow = SlowFetches(fetches.broker)
        self.random = random.Random(seed)
        self.limits = [1000, 100_000, 10]
        self.gone: list[Any] = []
        self.in_transaction: set[tuple[str, int]] = set()
        self.sequences: dict[tuple[str, int], int] = {}

    async def prepare(self) -> None:
        await self.fetches.broker.metadata.create_topic(_OTHER, [[1]] * _PARTITIONS, {})

    def something(self) -> None:
        """Something happens to a partition."""
        partitions = list(self.fetches.broker.partitions)
        partition = self.random.choice(partitions) if partitions else None
        what = self.random.randrange(12)
        if what == 0 and self.gone:
            self.fetches.broker.partitions.add(self.gone.pop())
        elif partition is None:
            return
        elif what == 1:
            self.gone.append(partition)
            self.fetches.broker.partitions.remove(partition.topic, partition.index)
        elif what == 2:
            low, high = partition.log_start_offset, partition.high_watermark
            partition.delete_records_before(self.random.randint(low, high))
        elif what == 3:
            begin_epoch(partition, partition.leader_epoch + 1)
        elif what == 4:
            directory = self.fetches.broker.logs.directories[0]
            failed = OSError(errno.EIO, "Input/output error")
            directory.failure = failed if directory.failure is None else None
        elif partition.log.log_directory.failure is None:
            self.append(partition, what)

    def append(self, partition: Any, what: int) -> None:
        key = partition.topic, partition.index
        if what > 8:
            count = self.random.randint(1, 3)
            partition.append_as_leader(prepared(count), partition.leader_epoch, NOW_MS)
        elif key in self.in_transaction:
            self.in_transaction.remove(key)
            partition.append_internal(marker(commit=what == 8), NOW_MS)
        else:
            self.in_transaction.add(key)
            sequence = self.sequences.get(key, 0)
            self.sequences[key] = sequence + 1
            batch = from_producer(sequence, is_transactional=True)
            partition.append_as_leader(batch, partition.leader_epoch, NOW_MS)

    def part(self, name: str, index: int) -> dict[str, Any]:
        choose = self.random.choice
        partition = self.fetches.broker.partitions.find(name, index)
        end = 0 if partition is None else partition.high_watermark
        epoch = 1 if partition is None else partition.leader_epoch
        return self.fetches.part(
            index,
            choose([end, end, end, self.random.randint(0, end), end + 1, -1]),
            partition_max_bytes=choose(self.limits),
            current_leader_epoch=choose([-1, -1, -1, epoch, epoch - 1, epoch + 1]),
            last_fetched_epoch=choose([-1, -1, -1, -1, epoch, epoch - 1, epoch + 3]),
        )

    def topics(self, most: int) -> list[dict[str, Any]]:
        chosen = []
        for _ in range(self.random.randint(0, most)):
            name = self.random.choice([TOPIC, TOPIC, _OTHER, "nowhere"])
            indexes = self.random.sample(range(_PARTITIONS + 1), self.random.randint(0, 4))
            chosen.append(self.fetches.topic(name, *[self.part(name, each) for each in indexes]))
        return chosen


def answers_in(version: int, frame: bytes) -> dict[Any, Any]:
    """By topic and partition: in which order they come is for the limits to say."""
    _, response = parse_response("fetch", version, frame[4:])
    return {
        (topic.topic_id if version >= 13 else topic.topic, part.partition_index): part
        for topic in response.responses
        for part in topic.partitions
    } | {"session": response.session_id, "error": response.error_code}


@pytest.mark.parametrize("seed", range(4))
def test_fetches_without_a_session(tmp_path: Path, seed: int) -> None:
    async def scenario(fetches: Fetches) -> None:
        world = World(fetches, seed)
        await world.prepare()
        choose = world.random.choice
        for number in range(250):
            for _ in range(world.random.randint(0, 4)):
                world.something()
            frame = fetches.frame_of(
                choose(VERSIONS),
                world.topics(4),
                number,
                isolation_level=choose([0, 1]),
                max_bytes=choose([1 << 20, 1000, 100, 0]),
                replica_id=choose([-1] * 9 + [1]),
            )
            assert fetches.now(frame) == world.slow.answer(frame)

    with_broker(scenario, tmp_path, _PARTITIONS)


@pytest.mark.parametrize("seed", seeds(4, 8))
def test_histories_of_sessions(tmp_path: Path, seed: int) -> None:
    async def scenario(fetches: Fetches) -> None:
        world = World(fetches, seed)
        world.limits = [1000, 100_000]  # whether a smaller one holds depends on who comes first
        await world.prepare()
        for _ in range(12):
            await history(world)

    with_broker(scenario, tmp_path, _PARTITIONS)


async def history(world: World) -> None:
    fetches, choose = world.fetches, world.random.choice
    version = choose(range(7, VERSIONS[-1] + 1))
    topics = [
        fetches.topic(name, *[world.part(name, index) for index in range(_PARTITIONS)])
        for name in (TOPIC, _OTHER, "nowhere")[: world.random.randint(1, 3)]
    ]
    session_id, isolation_level = 0, choose([0, 1])
    for epoch in range(30):
        forgotten = []
        if epoch:
            topics = world.topics(2) if choose([True, False]) else []
            if choose([True, False, False]):
                forgotten = [fetches.topic(TOPIC) | {"partitions": [choose(range(_PARTITIONS))]}]
            if choose([True] + [False] * 9):
                isolation_level = 1 - isolation_level
        for each in forgotten:
            del each["topic" if version >= 13 else "topic_id"]
        frame = fetches.frame_of(
            version,
            topics,
            isolation_level=isolation_level,
            session_id=session_id,
            session_epoch=epoch,
            forgotten_topics_data=forgotten,
        )
        got = answers_in(version, await fetches.answer(frame))
        if epoch == 0:
            session_id = got["session"]
        assert got == answers_in(version, world.slow.answer(frame, session_id))
        for _ in range(choose([0, 0, 1, 1, 5])):
            world.something()
