"""What coordinators write by themselves: in turns, and nothing that memory does not know."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from coordination.groups.coordinator.test_group_coordinator import loaded
from coordination.groups.share.share_world import ShareWorld, run
from coordination.memory_log import MemoryLog, lead_all, new_coordinator
from drumlin.coordination.groups.shard.shard import GroupShard
from drumlin.wire.error_codes import ErrorCode, KafkaError
from rig.time.turn_lengths import single_steps

_MANY = 3_000


def test_a_share_state_in_the_log_is_in_memory_whatever_fails_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A log dir may fail at any moment, also right after the append."""

    async def scenario(world: ShareWorld) -> None:
        topic = world.topics.put("t", 1)

        def fail(partition: int) -> int:
            raise KafkaError(ErrorCode.kafka_storage_error, f"partition {partition}")

        await world.states.initialize("g", topic.topic_id, 0, 1, 3)
        with monkeypatch.context() as failing:
            failing.setattr(world.states, "_ends", SimpleNamespace(end_offset=fail))
            await world.states.initialize("g", topic.topic_id, 0, 1, 5)
        shard = world.states._partitions.shard(0)
        (stored,) = shard.states.values()
        assert (stored.state.start_offset, stored.snapshot_offset) == (5, 1)
        assert world.state_log.end_offset(0) == 2

    run(scenario)


def test_very_many_that_are_removed_are_told_of_in_turns(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    most = 0

    async def main() -> None:
        coordinator = new_coordinator(log := MemoryLog(1))
        coordinator.start()
        lead_all(coordinator, log)
        await loaded(coordinator)

        def find(_: GroupShard) -> Iterator[tuple[str, list[int]]]:
            yield from ((f"group {number}", [number]) for number in range(_MANY))

        async def count_turns() -> None:
            nonlocal most
            while True:
                before = len(caplog.records)
                await asyncio.sleep(0)
                most = max(most, len(caplog.records) - before)

        counting = asyncio.create_task(count_turns())
        single_steps(monkeypatch)
        monkeypatch.setattr(coordinator._writer, "write", lambda *_: None)
        await coordinator._write_found(0, find)
        await asyncio.sleep(0)  # the last turn counts, too
        counting.cancel()
        await coordinator.close()

    with caplog.at_level(logging.INFO, "drumlin.coordination.shards.sharded_coordinator"):
        asyncio.run(main())
    assert len(caplog.records) == _MANY
    assert most <= 50


def test_what_cannot_be_written_holds_up_nothing_else(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    written: list[int] = []

    def write(_: GroupShard, records: list[int]) -> None:
        if 2 in records:
            raise KafkaError(ErrorCode.kafka_storage_error, "full")
        written.extend(records)

    async def main() -> None:
        coordinator = new_coordinator(log := MemoryLog(1))
        coordinator.start()
        lead_all(coordinator, log)
        await loaded(coordinator)
        found = [("a", [1]), ("a", [2]), ("a", [3]), ("b", [4]), ("b", []), ("b", [5, 6])]
        monkeypatch.setattr(coordinator._writer, "write", write)
        await coordinator._write_found(0, lambda _: found)
        await coordinator.close()

    with caplog.at_level(logging.INFO, "drumlin.coordination.shards.sharded_coordinator"):
        asyncio.run(main())
    assert written == [1, 4, 5, 6]
    assert [each.levelname for each in caplog.records] == ["WARNING", "INFO", "INFO"]
