"""A classic group of many members becomes a consumer group in turns of the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from coordination.classic_members import (
    MEMBERS,
    REBALANCE_MS,
    SESSION_MS,
    Members,
    all_of,
    first_generation,
    request,
    single_step,
    some_turns,
    stored,
)
from coordination.memory_log import TOPIC_ID, MemoryLog, lead_all, new_coordinator, wake
from coordination.settings import Settings
from coordination.test_group_coordinator import loaded, until, with_coordinator
from drumlin.clock import ManualClock
from drumlin.coordination.groups.consumer.group import ConsumerGroup
from drumlin.coordination.groups.consumer.messages import HeartbeatAnswer, HeartbeatRequest
from drumlin.coordination.groups.coordinator import upgrades
from drumlin.coordination.groups.coordinator.coordinator import GroupCoordinator
from drumlin.coordination.groups.every_kind.messages import LeavingMember, SyncRequest
from drumlin.coordination.groups.offsets.commit import Commit
from drumlin.wire.embedded_protocol import write_assignment
from drumlin.wire.error_codes import ErrorCode, KafkaError
from rig.committed_offsets import commit_offsets, position

NOTHING = write_assignment(0, {})
SETTINGS = Settings(
    group_initial_rebalance_delay_ms=REBALANCE_MS, group_consumer_migration_policy="bidirectional"
)
_ELSEWHERE = {ErrorCode.not_coordinator, ErrorCode.coordinator_load_in_progress}
Do = Callable[[GroupCoordinator, MemoryLog, ManualClock, Members], Awaitable[None]]


@pytest.fixture(autouse=True)
def every_step_is_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    single_step(monkeypatch)
    monkeypatch.setattr(upgrades, "_MEMBERS_AT_ONCE", 2)


def sync(coordinator: GroupCoordinator, members: Members) -> list[Awaitable[Any]]:
    said = [(each.member_id, NOTHING) for each in members]
    return [coordinator.sync("g", sync_request(each, said)) for each in members]


def sync_request(member: Any, said: list[tuple[str, bytes]]) -> SyncRequest:
    instance_id = "static" if member.member_id.startswith("static") else None
    return SyncRequest(
        member.member_id,
        instance_id,
        member.generation_id,
        "consumer",
        "range",
        said if member.members else [],
    )


def upgrade(coordinator: GroupCoordinator, member_id: str = "m") -> Any:
    modern = HeartbeatRequest(
        member_id, 0, "c", "/h", None, None, 30_000, frozenset(["t"]), owned={}
    )
    return coordinator.consumer_heartbeat("g", modern)


async def stable(coordinator: GroupCoordinator, clock: ManualClock) -> Members:
    members = await first_generation(coordinator, clock)
    assert {each.error for each in await all_of(sync(coordinator, members))} == {ErrorCode.none}
    return members


async def ended(upgrade: Any) -> int:
    """How many turns it takes."""
    count = 0
    while not upgrade.done():
        assert count < 1_000
        await asyncio.sleep(0)
        count += 1
    return count


async def _check(coordinator: GroupCoordinator, log: MemoryLog, clock: ManualClock) -> None:
    """Another coordinator reads the same group."""
    await some_turns(100)
    assert stored(log)[-1] is None
    again = new_coordinator(log, SETTINGS, clock)
    again.start()
    lead_all(again, log)
    await loaded(again)
    group, twin = coordinator.consumer_group("g"), again.consumer_group("g")
    assert _said(twin) == _said(group)
    await again.close()


def _said(group: ConsumerGroup) -> Any:
    return group.members, group.targets, group.epoch, group.target_epoch, group.owners


async def _nothing(*_: Any) -> None:
    pass


async def _heartbeat(
    coordinator: GroupCoordinator, log: MemoryLog, clock: ManualClock, members: Members
) -> None:
    member = members[0]
    coordinator.heartbeat("g", member.member_id, None, member.generation_id)


async def _commit(
    coordinator: GroupCoordinator, log: MemoryLog, clock: ManualClock, members: Members
) -> None:
    member = members[0]
    offsets = [position("t", TOPIC_ID, 0, 5)]
    commit = Commit("g", member.member_id, None, member.generation_id, None, offsets)
    assert await commit_offsets(coordinator, commit) == [ErrorCode.none]


async def _another_comes(
    coordinator: GroupCoordinator, log: MemoryLog, clock: ManualClock, members: Members
) -> None:
    joining = coordinator.join("g", request())
    await until(joining.done)
    assert (await joining).error is ErrorCode.rebalance_in_progress


async def _one_leaves(
    coordinator: GroupCoordinator, log: MemoryLog, clock: ManualClock, members: Members
) -> None:
    assert await coordinator.leave("g", [LeavingMember(members[3].member_id, None, "")]) == [
        ErrorCode.none
    ]


async def _all_leave(
    coordinator: GroupCoordinator, log: MemoryLog, clock: ManualClock, members: Members
) -> None:
    leaving = [LeavingMember(each.member_id, None, "") for each in members[:-1]]
    leaving.append(LeavingMember("", "static", ""))
    assert set(await coordinator.leave("g", leaving)) == {ErrorCode.none}


async def _sessions_end(
    coordinator: GroupCoordinator, log: MemoryLog, clock: ManualClock, members: Members
) -> None:
    clock.advance_ms(SESSION_MS)
    wake(coordinator)
    await some_turns(3)


@pytest.mark.parametrize("turns_before", [0, 1, 5, 12, 18, 24, 26])
@pytest.mark.parametrize(
    ("do", "count"),
    [
        (_nothing, MEMBERS),
        (_heartbeat, MEMBERS),
        (_commit, MEMBERS),
        (_another_comes, MEMBERS + 1),
        (_one_leaves, MEMBERS - 1),
        (_all_leave, 0),
        (_sessions_end, MEMBERS),
    ],
)
def test_classic_members_go_on_meanwhile(turns_before: int, do: Do, count: int) -> None:
    async def run(coordinator: GroupCoordinator, log: MemoryLog, clock: ManualClock) -> None:
        members = await stable(coordinator, clock)
        upgrading = upgrade(coordinator)
        await some_turns(turns_before)
        assert not upgrading.done()
        assert coordinator.classic_group("g").membership.members
        meanwhile = asyncio.ensure_future(do(coordinator, log, clock, members))
        await ended(upgrading)
        answer: HeartbeatAnswer = upgrading.result()
        assert answer.member_id == "m"
        await asyncio.wait_for(meanwhile, 10)
        group = coordinator.consumer_group("g")
        assert (len(group.members), group.classic_count) == (count + 1, count)
        await _check(coordinator, log, clock)
        # All have the time of a session from now on.
        clock.advance_ms(SESSION_MS // 2)
        wake(coordinator)
        assert len(group.members) == count + 1
        # A silent member is out; first the one of the consumer protocol.
        for _ in range(3):
            clock.advance_ms(SESSION_MS)
            wake(coordinator)
            await some_turns(100)
        assert coordinator.group("g").is_deletable

    with_coordinator(run, SETTINGS)


def test_turns_and_outcome_are_those_of_a_small_group(monkeypatch: pytest.MonkeyPatch) -> None:
    groups: list[Any] = []

    async def run(coordinator: GroupCoordinator, log: MemoryLog, clock: ManualClock) -> None:
        await stable(coordinator, clock)
        upgrading = upgrade(coordinator)
        if not groups:
            assert await ended(upgrading) > 3 * MEMBERS
        await upgrading
        await some_turns(100)
        group = coordinator.consumer_group("g")
        members = sorted(group.members.values(), key=lambda each: each.member_id)
        said = [(each.subscription.topics, each.progress) for each in members]
        groups.append((said, group.epoch, group.target_epoch, group.classic_count))

    with_coordinator(run, SETTINGS)
    monkeypatch.setattr(upgrades, "_MEMBERS_AT_ONCE", MEMBERS)
    with_coordinator(run, SETTINGS)
    assert [len(each[0]) for each in groups] == [MEMBERS + 1] * 2
    assert groups[0][1] == groups[1][1]
    assert groups[0][3] == groups[1][3] == MEMBERS


def test_whoever_comes_second_is_asked_to_come_again() -> None:
    async def run(coordinator: GroupCoordinator, log: MemoryLog, clock: ManualClock) -> None:
        await stable(coordinator, clock)
        upgrading = upgrade(coordinator)
        await some_turns(3)
        with pytest.raises(KafkaError) as refusal:
            await upgrade(coordinator, "n")
        assert refusal.value.code is ErrorCode.coordinator_load_in_progress
        await upgrading
        assert (await upgrade(coordinator, "n")).member_id == "n"
        await _check(coordinator, log, clock)

    with_coordinator(run, SETTINGS)


def test_what_is_refused_leaves_the_classic_group_as_it_is() -> None:
    async def run(coordinator: GroupCoordinator, log: MemoryLog, clock: ManualClock) -> None:
        members = await stable(coordinator, clock)
        written = len(log.records())
        upgrading = upgrade(coordinator)
        await some_turns(5)
        log.error = ErrorCode.not_enough_replicas
        with pytest.raises(KafkaError) as refusal:
            await upgrading
        assert refusal.value.code is ErrorCode.coordinator_not_available
        log.error = None
        assert len(log.records()) == written
        assert len(coordinator.classic_group("g").membership.members) == MEMBERS
        await _heartbeat(coordinator, log, clock, members)
        await upgrade(coordinator)
        await _check(coordinator, log, clock)

    with_coordinator(run, SETTINGS)


@pytest.mark.parametrize("turns_before", [0, 1, 12, 24, 27, 29, 33])
def test_another_broker_leads_it_from_now_on(turns_before: int) -> None:
    async def run(coordinator: GroupCoordinator, log: MemoryLog, clock: ManualClock) -> None:
        await stable(coordinator, clock)
        upgrading = upgrade(coordinator)
        await some_turns(turns_before)
        was_done = isinstance(coordinator.group("g"), ConsumerGroup)
        for partition in range(4):
            coordinator.resign(partition)
        lead_all(coordinator, log)
        await loaded(coordinator)
        (answer,) = await all_of([upgrading])
        if was_done:
            assert answer.member_id == "m"
            assert len(coordinator.consumer_group("g").members) == MEMBERS + 1
        else:
            assert isinstance(answer, KafkaError)
            assert answer.code in _ELSEWHERE
            assert len(coordinator.classic_group("g").membership.members) == MEMBERS
            await upgrade(coordinator)
        await _check(coordinator, log, clock)

    with_coordinator(run, SETTINGS)


def test_the_coordinator_ends() -> None:
    upgrades: list[Any] = []

    async def run(coordinator: GroupCoordinator, log: MemoryLog, clock: ManualClock) -> None:
        await stable(coordinator, clock)
        upgrades.append(upgrade(coordinator))
        await some_turns(5)

    with_coordinator(run, SETTINGS)
    error = upgrades[0].exception()
    assert isinstance(error, KafkaError)
    assert error.code is ErrorCode.coordinator_not_available


def test_a_group_that_keeps_changing_is_held() -> None:
    async def run(coordinator: GroupCoordinator, log: MemoryLog, clock: ManualClock) -> None:
        members = await stable(coordinator, clock)
        upgrading = upgrade(coordinator)
        joining, refusals = [], set[ErrorCode]()
        for _ in range(1_000):
            if isinstance(coordinator.group("g"), ConsumerGroup):
                break
            try:
                joining.append(coordinator.join("g", request()))
            except KafkaError as refusal:
                refusals.add(refusal.code)
                await _check_held(coordinator, members)
            await asyncio.sleep(0)
        assert refusals == {ErrorCode.coordinator_load_in_progress}
        assert (await upgrading).member_id == "m"
        told = await all_of(joining)
        assert {each.error for each in told} == {ErrorCode.rebalance_in_progress}
        assert len(coordinator.consumer_group("g").members) == MEMBERS + len(joining) + 1
        again = await coordinator.join("g", request(told[0].member_id))
        assert again.error is ErrorCode.none
        await _check(coordinator, log, clock)

    with_coordinator(run, SETTINGS)


async def _check_held(coordinator: GroupCoordinator, members: Members) -> None:
    leaving = [LeavingMember(members[0].member_id, None, "")]
    with pytest.raises(KafkaError) as refusal:
        await coordinator.leave("g", leaving)
    assert refusal.value.code is ErrorCode.coordinator_load_in_progress
    with pytest.raises(KafkaError) as refusal:
        await coordinator.sync("g", sync_request(members[0], []))
    assert refusal.value.code is ErrorCode.rebalance_in_progress
