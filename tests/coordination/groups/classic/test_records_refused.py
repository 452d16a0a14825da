"""Records of classic groups that cannot be written, or are confirmed too late.

Whatever happens to them, the group is what another coordinator would load.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from coordination.groups.classic.classic_members import (
    REBALANCE_MS,
    SESSION_MS,
    all_of,
    first_generation,
    request,
    single_step,
    some_turns,
)
from coordination.groups.coordinator.test_group_coordinator import loaded, with_coordinator
from coordination.memory_log import FullLog, MemoryLog, lead_all, new_coordinator, wake
from drumlin.clock import ManualClock
from drumlin.coordination.groups.coordinator.coordinator import GroupCoordinator
from drumlin.coordination.groups.every_kind.messages import JoinAnswer, SyncRequest
from drumlin.wire.error_codes import ErrorCode, KafkaError
from rig.time.turn_lengths import unhurried

_STATIC = ("s1", "s2", "s3")


async def _loaded_members(log: MemoryLog, clock: ManualClock) -> Any:
    again = new_coordinator(log, clock=clock)
    again.start()
    lead_all(again, log)
    await loaded(again)
    members = _members(again)
    await again.close()
    return members


def _members(coordinator: GroupCoordinator) -> Any:
    return {
        each.member_id: (each.group_instance_id, each.session_timeout_ms, each.assignment)
        for each in coordinator.classic_group("g").membership.members.values()
    }


async def _stable(coordinator: GroupCoordinator, clock: ManualClock) -> list[JoinAnswer]:
    joining = [coordinator.join("g", request(instance_id=each)) for each in _STATIC]
    clock.advance_ms(REBALANCE_MS)
    wake(coordinator)
    members = await all_of(joining)
    said = [(each.member_id, each.member_id.encode()) for each in members]
    syncing = [
        coordinator.sync(
            "g", SyncRequest(each.member_id, instance_id, 1, "consumer", "range", said)
        )
        for each, instance_id in zip(members, _STATIC, strict=True)
    ]
    assert {each.error for each in await all_of(syncing)} == {ErrorCode.none}
    return members


@pytest.mark.parametrize("written", range(4))
@pytest.mark.parametrize("turns_between", range(7))
def test_static_members_that_are_back(
    turns_between: int, written: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They come one after the other, one of them twice; each record may say it of several."""
    single_step(monkeypatch)

    async def run(_: GroupCoordinator, __: MemoryLog, clock: ManualClock) -> None:
        log = FullLog()
        coordinator = new_coordinator(log, clock=clock)
        coordinator.start()
        lead_all(coordinator, log)
        await loaded(coordinator)
        await _stable(coordinator, clock)
        log.room = written
        joining = []
        for instance_id in ("s1", "s2", "s2", "s3"):
            joining.append(coordinator.join("g", request(instance_id=instance_id)))
            await some_turns(turns_between)
        told = {each.error for each in await all_of(joining)}
        assert told <= {
            ErrorCode.none,
            ErrorCode.not_coordinator,
            ErrorCode.fenced_instance_id,
        }
        assert _members(coordinator) == await _loaded_members(log, clock)
        await coordinator.close()

    with_coordinator(run)


def test_a_static_member_whose_record_is_confirmed_too_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    unhurried(monkeypatch)

    async def run(coordinator: GroupCoordinator, log: MemoryLog, clock: ManualClock) -> None:
        await _stable(coordinator, clock)
        log.confirmations = []
        joining = coordinator.join("g", request(instance_id="s1"))
        _fail(log)
        (joined,) = await all_of([joining])
        assert joined.error is ErrorCode.coordinator_not_available
        assert _members(coordinator) == await _loaded_members(log, clock)
        log.confirmations = None
        joined = await coordinator.join("g", request(instance_id="s1"))
        assert joined.error is ErrorCode.none
        assert _members(coordinator) == await _loaded_members(log, clock)

    with_coordinator(run)


def _fail(log: MemoryLog) -> None:
    assert log.confirmations
    for each in log.confirmations:
        each.set_exception(KafkaError(ErrorCode.not_enough_replicas_after_append))


def test_a_new_group_whose_record_is_confirmed_too_late() -> None:
    async def run(coordinator: GroupCoordinator, log: MemoryLog, clock: ManualClock) -> None:
        log.confirmations = []
        joining = asyncio.ensure_future(first_generation(coordinator, clock))
        await some_turns(10)
        _fail(log)
        log.confirmations = None
        await some_turns(10)
        members = await joining
        assert {each.error for each in members} == {ErrorCode.none}
        for each in members[:-1]:
            coordinator.heartbeat("g", each.member_id, None, each.generation_id)
        assert len(_members(coordinator)) == len(members)

    with_coordinator(run)


def test_a_new_group_that_cannot_be_written_is_none() -> None:
    async def run(coordinator: GroupCoordinator, log: MemoryLog, clock: ManualClock) -> None:
        log.error = ErrorCode.not_enough_replicas
        joined = await coordinator.join("g", request())
        assert joined.error is ErrorCode.coordinator_not_available
        assert not coordinator.groups()

    with_coordinator(run)


def test_a_group_that_cannot_be_written_when_its_last_member_is_gone() -> None:
    async def run(coordinator: GroupCoordinator, log: MemoryLog, clock: ManualClock) -> None:
        await _stable(coordinator, clock)
        log.error = ErrorCode.not_enough_replicas
        for _ in range(3):
            clock.advance_ms(SESSION_MS)
            wake(coordinator)
        assert coordinator.classic_group("g").state_name == "Empty"
        assert len(await _loaded_members(log, clock)) == len(_STATIC)
        log.error = None
        clock.advance_ms(SESSION_MS)
        wake(coordinator)
        assert await _loaded_members(log, clock) == {}

    with_coordinator(run)
