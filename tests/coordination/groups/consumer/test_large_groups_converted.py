"""A classic group becomes a consumer group while what it has decided is written and told."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable
from typing import Any

import pytest

from coordination.groups.classic.classic_members import (
    REBALANCE_MS,
    all_of,
    first_generation,
    gated,
    request,
    some_turns,
    stored,
)
from coordination.groups.coordinator.test_group_coordinator import loaded, with_coordinator
from coordination.memory_log import MemoryLog, lead_all, new_coordinator
from coordination.settings import Settings
from drumlin.clock import ManualClock
from drumlin.coordination.groups.consumer.messages import HeartbeatRequest
from drumlin.coordination.groups.coordinator.coordinator import GroupCoordinator
from drumlin.coordination.groups.every_kind.messages import JoinAnswer, SyncAnswer, SyncRequest
from drumlin.wire.embedded_protocol import write_assignment
from drumlin.wire.error_codes import ErrorCode

NOTHING = write_assignment(0, {})
SETTINGS = Settings(
    group_initial_rebalance_delay_ms=REBALANCE_MS, group_consumer_migration_policy="bidirectional"
)


pytestmark = pytest.mark.usefixtures("every_step_is_a_turn")


def _sync(coordinator: GroupCoordinator, members: list[JoinAnswer]) -> list[Awaitable[SyncAnswer]]:
    said = [(each.member_id, NOTHING) for each in members]
    return [
        coordinator.sync(
            "g",
            SyncRequest(
                each.member_id,
                _instance(each),
                each.generation_id,
                "consumer",
                "range",
                said if each.members else [],
            ),
        )
        for each in members
    ]


def _instance(member: JoinAnswer) -> str | None:
    return "static" if member.member_id.startswith("static") else None


def _rejoin(
    coordinator: GroupCoordinator, members: list[JoinAnswer]
) -> list[Awaitable[JoinAnswer]]:
    """The leader rejoins first, so that the group rebalances."""
    known = sorted(members, key=lambda each: not each.members)
    return [coordinator.join("g", request(each.member_id, _instance(each))) for each in known]


async def _upgraded(coordinator: GroupCoordinator) -> Any:
    modern = HeartbeatRequest("m", 0, "c", "/h", None, None, 30_000, frozenset(["t"]), owned={})
    return await coordinator.consumer_heartbeat("g", modern)


async def _check(coordinator: GroupCoordinator, log: MemoryLog, clock: ManualClock) -> None:
    await some_turns(100)
    assert stored(log)[-1] is None  # nothing was written of it afterwards
    again = new_coordinator(log, clock=clock)
    again.start()
    lead_all(again, log)
    await loaded(again)
    assert again.consumer_group("g").members == coordinator.consumer_group("g").members
    await again.close()


@pytest.mark.parametrize("turns_before", [0, 4, 9, 14, 20, 30])
def test_while_a_generation_is_told(turns_before: int) -> None:
    async def run(coordinator: GroupCoordinator, log: MemoryLog, clock: ManualClock) -> None:
        members = await first_generation(coordinator, clock)
        assert {each.error for each in await all_of(_sync(coordinator, members))} == {
            ErrorCode.none
        }
        joining = _rejoin(coordinator, members)
        await some_turns(turns_before)
        assert (await _upgraded(coordinator)).member_id == "m"
        told = {each.error for each in await all_of(joining)}
        assert told <= {ErrorCode.none, ErrorCode.rebalance_in_progress}
        assert len(coordinator.consumer_group("g").members) == len(members) + 1
        await _check(coordinator, log, clock)

    with_coordinator(run, SETTINGS)


@pytest.mark.parametrize("turns_before", [0, 4, 12, 20, 40])
def test_while_the_record_is_made(turns_before: int, monkeypatch: pytest.MonkeyPatch) -> None:
    gate: threading.Event = gated(monkeypatch)

    async def run(coordinator: GroupCoordinator, log: MemoryLog, clock: ManualClock) -> None:
        gate.set()
        members = await first_generation(coordinator, clock)
        await all_of(_sync(coordinator, members))
        members = await all_of(_rejoin(coordinator, members))
        gate.clear()
        syncing = [asyncio.ensure_future(each) for each in _sync(coordinator, members)]
        await some_turns(turns_before)
        assert (await _upgraded(coordinator)).member_id == "m"
        gate.set()
        assert {each.error for each in await all_of(syncing)} == {ErrorCode.rebalance_in_progress}
        await _check(coordinator, log, clock)

    with_coordinator(run, SETTINGS)
