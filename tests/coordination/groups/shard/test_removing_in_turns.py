"""What is left over in the groups of many partitions is looked for in one after the other."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest

from coordination.groups.coordinator.test_group_coordinator import loaded
from coordination.memory_log import KnownTopics, MemoryLog, lead_all, new_coordinator
from drumlin.clock import ManualClock
from drumlin.coordination.groups.offsets.commit import Commit
from drumlin.coordination.groups.shard.shard import GroupShard
from drumlin.turns import TURN_S
from rig.data.committed_offsets import commit_offsets, position

_PARTITIONS = 20


def test_after_a_start_not_all_partitions_are_looked_at_in_one_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked_at = 0

    def orphans(_: GroupShard, _group_id: str) -> Iterator[list[Any]]:
        nonlocal looked_at
        looked_at += 1
        time.sleep(TURN_S / 4)
        yield []

    async def main() -> None:
        log, clock = MemoryLog(_PARTITIONS), ManualClock()
        first = new_coordinator(log, None, clock)
        first.start()
        lead_all(first, log)
        await loaded(first)
        for number in range(100):
            one = position("t", None, 0, 1, -1, "")
            await commit_offsets(first, Commit(f"g-{number}", "", None, -1, None, [one]))
        await first.close()
        monkeypatch.setattr(GroupShard, "orphans", orphans)
        topics = KnownTopics()
        topics.put("gone", 1)
        topics.remove("gone")
        again = new_coordinator(log, None, clock, topics)
        again.start()
        lead_all(again, log)
        most = before = 0
        async with asyncio.timeout(20):
            while looked_at < 100:
                await asyncio.sleep(0)
                most, before = max(most, looked_at - before), looked_at
        await again.close()
        assert most <= 4

    asyncio.run(main())


def test_where_no_topic_was_deleted_nobody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[str] = []

    def orphans(_: GroupShard, group_id: str) -> Iterator[list[Any]]:
        looked_at.append(group_id)
        yield []

    async def main() -> None:
        log, clock = MemoryLog(_PARTITIONS), ManualClock()
        monkeypatch.setattr(GroupShard, "orphans", orphans)
        for _ in range(2):
            coordinator = new_coordinator(log, None, clock)
            coordinator.start()
            lead_all(coordinator, log)
            await loaded(coordinator)
            one = position("t", None, 0, 1, -1, "")
            await commit_offsets(coordinator, Commit("g", "", None, -1, None, [one]))
            await coordinator.close()

    asyncio.run(main())
    assert looked_at == []
