"""A group of very many members: they are not all answered in one turn of the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

from coordination.groups.classic.scenario import subscription
from coordination.groups.coordinator.test_group_coordinator import with_coordinator
from coordination.memory_log import MemoryLog, wake
from drumlin.clock import ManualClock
from drumlin.coordination.groups.coordinator.coordinator import GroupCoordinator
from drumlin.coordination.groups.every_kind.messages import JoinRequest, SyncRequest

_MEMBERS = 400
_PER_TURN = 32


def _joining(coordinator: GroupCoordinator) -> list[asyncio.Future[Any]]:
    protocols = (("range", subscription("t")),)
    request = JoinRequest("", None, "", "", 3000, 60_000, "consumer", protocols, False)
    return [asyncio.ensure_future(coordinator.join("g", request)) for _ in range(_MEMBERS)]


async def _most_in_a_turn(waiting: list[asyncio.Future[Any]]) -> int:
    most = before = 0
    for _ in range(1_000):
        done = sum(each.done() for each in waiting)
        most, before = max(most, done - before), done
        if done == len(waiting):
            return most
        await asyncio.sleep(0)
    raise AssertionError(f"{before} of {len(waiting)} were answered")


def test_a_rebalance_is_told_in_several_turns() -> None:
    async def run(coordinator: GroupCoordinator, _: MemoryLog, clock: ManualClock) -> None:
        joining = _joining(coordinator)
        clock.advance_ms(3000)
        wake(coordinator)
        assert await _most_in_a_turn(joining) <= _PER_TURN
        joined = [each.result() for each in joining]
        leader = next(each for each in joined if each.members)
        assignments = [(each.member_id, b"assigned") for each in joined]
        syncing: list[Awaitable[Any]] = [
            coordinator.sync(
                "g",
                SyncRequest(
                    each.member_id,
                    None,
                    each.generation_id,
                    "consumer",
                    "range",
                    assignments if each is leader else [],
                ),
            )
            for each in sorted(joined, key=lambda each: each is leader)
        ]
        waiting = [asyncio.ensure_future(each) for each in syncing]
        assert await _most_in_a_turn(waiting) <= _PER_TURN
        assert {each.result().assignment for each in waiting} == {b"assigned"}

    with_coordinator(run)


def test_nobody_is_left_waiting_when_the_coordinator_ends() -> None:
    async def run(coordinator: GroupCoordinator, _: MemoryLog, clock: ManualClock) -> None:
        joining = _joining(coordinator)
        clock.advance_ms(3000)
        wake(coordinator)
        assert not all(each.done() for each in joining)
        await coordinator.close()
        assert all(each.done() for each in joining)

    with_coordinator(run)
