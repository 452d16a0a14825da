"""Groups of very many members are loaded in turns; what comes meanwhile waits for the end."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from coordination.groups.classic.classic_members import (
    SESSION_MS,
    first_generation,
    single_step,
    stored,
    sync,
)
from coordination.groups.consumer.test_assigning_in_turns import GROUP, World
from coordination.groups.coordinator.test_group_coordinator import loaded, with_coordinator
from coordination.groups.share.share_world import ShareWorld
from coordination.groups.share.share_world import run as run_shares
from coordination.memory_log import MemoryLog, lead_all, new_coordinator, wake
from drumlin.clock import ManualClock
from drumlin.coordination.deadlines import DeadlineQueue
from drumlin.coordination.groups.coordinator.coordinator import GroupCoordinator
from drumlin.coordination.groups.every_kind.group_context import GroupContext
from drumlin.coordination.groups.shard.by_kind import new_group
from drumlin.coordination.groups.shard.log import load
from rig.time.stepped import Stepped


def test_a_consumer_group_gives_way_at_each_record() -> None:
    async def main() -> None:
        world = World()
        await world.start()
        records, steps = _steps(world.log, 0, GROUP, world.coordinator.context)
        await world.coordinator.close()
        assert records > 12
        assert steps >= records

    asyncio.run(main())


def test_a_share_group_gives_way_at_each_record() -> None:
    async def scenario(world: ShareWorld) -> None:
        world.topics.put("t", 4)
        for number in range(5):
            await world.beat(f"m{number}", 0, "t")
        partition = world.groups.shard_of("g").partition
        records, steps = _steps(world.offsets_log, partition, "g", world.groups.context)
        assert records > 5
        assert steps >= records

    run_shares(scenario)


def _steps(log: MemoryLog, partition: int, group_id: str, context: GroupContext) -> tuple[int, int]:
    """How many records there are of the group, and in how many steps it becomes what they say."""
    said = load(log.batches[partition]).groups[group_id]
    twin = new_group(said.kind, group_id, replace(context, deadlines=DeadlineQueue()))
    return len(said.records), Stepped(twin.restore(said.records)).count()


def test_sessions_that_end_while_their_partition_is_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """None can be heard of by then: members stay, and have the time of a heartbeat afterwards."""

    async def run(coordinator: GroupCoordinator, log: MemoryLog, clock: ManualClock) -> None:
        members = await first_generation(coordinator, clock)
        for each in sync(coordinator, members):
            await each
        written = len(stored(log))
        again = new_coordinator(log, clock=clock)
        again.start()
        single_step(monkeypatch)
        lead_all(again, log)
        for _ in range(100_000):
            if again._deadlines.next_deadline() is not None:  # the first member is there
                break
            await asyncio.sleep(0)
        assert again._partitions.is_loading(again._partition_for("g"))
        clock.advance_ms(SESSION_MS)
        again._alarm.wake()
        await loaded(again)
        wake(again)
        assert len(stored(log)) == written
        group = again.classic_group("g")
        assert len(group.membership.members) == len(members)
        silent, *others = members
        clock.advance_ms(4_000)
        for each in others[:-1]:
            again.heartbeat("g", each.member_id, None, each.generation_id)
        clock.advance_ms(1_000)
        wake(again)
        assert silent.member_id not in group.membership.members
        await again.close()

    with_coordinator(run)
