"""A large consumer group whose members are all classic ones becomes a classic group in turns."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from coordination.classic_members import (
    MEMBERS,
    REBALANCE_MS,
    SESSION_MS,
    Members,
    all_of,
    request,
    settled,
    single_step,
    some_turns,
    stored,
)
from coordination.memory_log import TOPIC_ID, MemoryLog, lead_all, new_coordinator, wake
from coordination.test_group_coordinator import loaded, with_coordinator
from coordination.test_upgrades_in_turns import SETTINGS, stable, upgrade
from drumlin.clock import ManualClock
from drumlin.coordination.groups.classic.group import Group
from drumlin.coordination.groups.consumer import conversion
from drumlin.coordination.groups.consumer.group import ConsumerGroup
from drumlin.coordination.groups.consumer.messages import HeartbeatRequest
from drumlin.coordination.groups.coordinator import downgrades, upgrades
from drumlin.coordination.groups.coordinator.coordinator import GroupCoordinator
from drumlin.coordination.groups.every_kind.messages import LeavingMember
from drumlin.coordination.groups.every_kind.states import DeadlineKind
from drumlin.coordination.groups.offsets.commit import Commit
from drumlin.wire.error_codes import ErrorCode, KafkaError
from rig.committed_offsets import commit_offsets, position
from rig.waiting import eventually

Do = Callable[[GroupCoordinator, ManualClock, Members], Awaitable[None]]


@pytest.fixture(autouse=True)
def every_step_is_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    single_step(monkeypatch)
    monkeypatch.setattr(conversion, "_DOWNGRADED_AT_ONCE", 2)


async def _mixed(coordinator: GroupCoordinator, clock: ManualClock) -> Members:
    members = await stable(coordinator, clock)
    await upgrade(coordinator)
    await some_turns(100)
    assert coordinator.consumer_group("g").classic_count == MEMBERS
    return members


async def _leave(coordinator: GroupCoordinator) -> None:
    """The one of the consumer protocol does not wait for what comes of it."""
    leaving = HeartbeatRequest("m", -1, "c", "/h", None, None, None, None)
    assert (await coordinator.consumer_heartbeat("g", leaving)).epoch == -1
    assert "m" not in coordinator.consumer_group("g").members


async def _classic(coordinator: GroupCoordinator) -> Group:
    await eventually(lambda: isinstance(coordinator.group("g"), Group))
    return coordinator.classic_group("g")


async def _check(coordinator: GroupCoordinator, log: MemoryLog, clock: ManualClock) -> None:
    """Another coordinator reads the same members, and nothing that is left of the other kind."""
    await some_turns(100)
    group = coordinator.classic_group("g")
    (said,) = [each for each in stored(log)[-1:] if each is not None]
    assert said.generation_id == group.generation_id
    again = new_coordinator(log, SETTINGS, clock)
    again.start()
    lead_all(again, log)
    await loaded(again)
    twin = again.classic_group("g")
    assert twin.generation_id == group.generation_id
    assert _protocols(twin) == _protocols(group)
    await again.close()


def _protocols(group: Group) -> dict[str, Any]:
    members = group.membership.members.values()
    return {each.member_id: (each.protocols, each.group_instance_id) for each in members}


def test_it_takes_turns_and_then_the_group_rebalances() -> None:
    async def run(coordinator: GroupCoordinator, log: MemoryLog, clock: ManualClock) -> None:
        members = await _mixed(coordinator, clock)
        await _leave(coordinator)
        count = 0
        while isinstance(coordinator.group("g"), ConsumerGroup):
            await _heartbeat(coordinator, clock, members)
            await asyncio.sleep(0)
            count += 1
        assert count > 3 * MEMBERS
        await _check(coordinator, log, clock)
        with pytest.raises(KafkaError) as refusal:
            group = coordinator.classic_group("g")
            coordinator.heartbeat("g", members[0].member_id, None, group.generation_id)
        assert refusal.value.code is ErrorCode.rebalance_in_progress
        assert len(await settled(coordinator, clock, members)) == MEMBERS
        await _check(coordinator, log, clock)

    with_coordinator(run, SETTINGS)


async def _heartbeat(coordinator: GroupCoordinator, clock: ManualClock, members: Members) -> None:
    with pytest.raises(KafkaError) as refusal:  # there is a new target assignment
        coordinator.heartbeat("g", members[0].member_id, None, members[0].generation_id)
    assert refusal.value.code is ErrorCode.rebalance_in_progress


async def _commit(coordinator: GroupCoordinator, clock: ManualClock, members: Members) -> None:
    member = members[0]
    offsets = [position("t", TOPIC_ID, 0, 5)]
    commit = Commit("g", member.member_id, None, member.generation_id, None, offsets)
    assert await commit_offsets(coordinator, commit) == [ErrorCode.none]


async def _another_comes(
    coordinator: GroupCoordinator, clock: ManualClock, members: Members
) -> None:
    assert (await coordinator.join("g", request())).error is ErrorCode.none


async def _one_joins_again(
    coordinator: GroupCoordinator, clock: ManualClock, members: Members
) -> None:
    joined = await coordinator.join("g", request(members[0].member_id))
    assert joined.error is ErrorCode.none


async def _one_leaves(coordinator: GroupCoordinator, clock: ManualClock, members: Members) -> None:
    leaving = [LeavingMember(members[3].member_id, None, "")]
    assert await coordinator.leave("g", leaving) == [ErrorCode.none]


async def _sessions_end(
    coordinator: GroupCoordinator, clock: ManualClock, members: Members
) -> None:
    clock.advance_ms(SESSION_MS)
    wake(coordinator)
    await some_turns(3)


@pytest.mark.parametrize("turns_before", [0, 1, 5, 17, 30, 45])
@pytest.mark.parametrize(
    ("do", "count"),
    [
        (_heartbeat, MEMBERS),
        (_commit, MEMBERS),
        (_another_comes, MEMBERS + 1),
        (_one_joins_again, MEMBERS),
        (_one_leaves, MEMBERS - 1),
        (_sessions_end, MEMBERS),
    ],
)
def test_members_go_on_meanwhile(turns_before: int, do: Do, count: int) -> None:
    async def run(coordinator: GroupCoordinator, log: MemoryLog, clock: ManualClock) -> None:
        members = await _mixed(coordinator, clock)
        await _leave(coordinator)
        await some_turns(turns_before)
        coordinator.consumer_group("g")
        await asyncio.wait_for(do(coordinator, clock, members), 10)
        group = await _classic(coordinator)
        assert len(group.membership.members) == count
        await _check(coordinator, log, clock)
        deadlines = [each for each, _ in coordinator.context.deadlines.items()]
        assert {each.kind for each in deadlines if each.member_id} == {DeadlineKind.SESSION}
        # A member that does not join in time is out; a static member when its session is over.
        clock.advance_ms(REBALANCE_MS + 5_000)
        wake(coordinator)
        assert group.membership.members.keys() == {members[-1].member_id}
        clock.advance_ms(SESSION_MS)
        wake(coordinator)
        assert not group.membership.members

    with_coordinator(run, SETTINGS)


@pytest.mark.parametrize("turns_before", [0, 5, 30, 45])
def test_another_of_the_consumer_protocol_comes(turns_before: int) -> None:
    async def run(coordinator: GroupCoordinator, log: MemoryLog, clock: ManualClock) -> None:
        await _mixed(coordinator, clock)
        await _leave(coordinator)
        await some_turns(turns_before)
        assert (await upgrade(coordinator, "n")).member_id == "n"
        await some_turns(200)
        assert len(coordinator.consumer_group("g").members) == MEMBERS + 1
        assert stored(log)[-1] is None

    with_coordinator(run, SETTINGS)


def test_the_only_one_of_the_consumer_protocol_leaves_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It has not heard yet that it is a member."""
    monkeypatch.setattr(upgrades, "_MEMBERS_AT_ONCE", 2)

    async def run(coordinator: GroupCoordinator, log: MemoryLog, clock: ManualClock) -> None:
        await stable(coordinator, clock)
        upgrading = upgrade(coordinator)
        for _ in range(1_000):
            if isinstance(coordinator.group("g"), ConsumerGroup):
                break
            await asyncio.sleep(0)
        assert not upgrading.done()
        await _leave(coordinator)
        assert len((await _classic(coordinator)).membership.members) == MEMBERS
        assert (await upgrading).member_id == "m"
        await _check(coordinator, log, clock)

    with_coordinator(run, SETTINGS)


def test_what_members_support_is_not_forgotten() -> None:
    async def run(coordinator: GroupCoordinator, log: MemoryLog, clock: ManualClock) -> None:
        members = await _mixed(coordinator, clock)
        joining = request(members[0].member_id)
        protocols = (*joining.protocols, ("roundrobin", joining.protocols[0][1]))
        joined = await coordinator.join("g", replace(joining, protocols=protocols))
        assert joined.error is ErrorCode.none
        await _leave(coordinator)
        group = await _classic(coordinator)
        assert group.membership.members[members[0].member_id].protocols == protocols

    with_coordinator(run, SETTINGS)


def test_a_static_member_comes_back_as_a_classic_one() -> None:
    async def run(coordinator: GroupCoordinator, log: MemoryLog, clock: ManualClock) -> None:
        members = await stable(coordinator, clock)
        modern = HeartbeatRequest(
            "m", 0, "c", "/h", "static", None, 30_000, frozenset(["t"]), owned={}
        )
        await coordinator.consumer_heartbeat("g", modern)
        assert coordinator.consumer_group("g").classic_count == MEMBERS - 1
        joined = await coordinator.join("g", request(instance_id="static"))
        assert joined.error is ErrorCode.none
        group = await _classic(coordinator)
        assert group.membership.members.keys() == {
            joined.member_id,
            *(each.member_id for each in members[:-1]),
        }
        await _check(coordinator, log, clock)

    with_coordinator(run, SETTINGS)


def test_what_cannot_be_written_leaves_the_consumer_group_as_it_is() -> None:
    async def run(coordinator: GroupCoordinator, log: MemoryLog, clock: ManualClock) -> None:
        members = await _mixed(coordinator, clock)
        await _leave(coordinator)
        written = len(log.records())
        log.error = ErrorCode.not_enough_replicas
        await some_turns(10)
        for _ in range(200):
            await asyncio.sleep(0.001)
        log.error = None
        assert len(log.records()) == written
        assert len(coordinator.consumer_group("g").members) == MEMBERS
        await _one_leaves(coordinator, clock, members)  # then it is tried again
        assert len((await _classic(coordinator)).membership.members) == MEMBERS - 1
        await _check(coordinator, log, clock)

    with_coordinator(run, SETTINGS)


@pytest.mark.parametrize("turns_before", [0, 1, 12, 30, 45, 60, 70])
def test_another_broker_leads_it_from_now_on(turns_before: int) -> None:
    async def run(coordinator: GroupCoordinator, log: MemoryLog, clock: ManualClock) -> None:
        members = await _mixed(coordinator, clock)
        await _leave(coordinator)
        await some_turns(turns_before)
        was_done = isinstance(coordinator.group("g"), Group)
        for partition in range(4):
            coordinator.resign(partition)
        lead_all(coordinator, log)
        await loaded(coordinator)
        await some_turns(200)
        if not was_done:
            assert len(coordinator.consumer_group("g").members) == MEMBERS
            await _one_leaves(coordinator, clock, members)
        group = await _classic(coordinator)
        assert len(group.membership.members) == MEMBERS - (not was_done)
        await _check(coordinator, log, clock)

    with_coordinator(run, SETTINGS)


def test_a_former_leader_holds_up_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it began ends only after the same broker leads again, and the group has changed."""
    gate, encode = threading.Event(), downgrades._Made.batches

    def encode_behind_gate(made: Any) -> Any:
        assert gate.wait(10)
        return encode(made)

    async def run(coordinator: GroupCoordinator, log: MemoryLog, clock: ManualClock) -> None:
        members = await _mixed(coordinator, clock)
        monkeypatch.setattr(downgrades._Made, "batches", encode_behind_gate)
        await _leave(coordinator)
        await some_turns(200)
        for partition in range(4):
            coordinator.resign(partition)
        lead_all(coordinator, log)
        await loaded(coordinator)
        await _one_leaves(coordinator, clock, members)
        await some_turns(200)
        gate.set()
        assert len((await _classic(coordinator)).membership.members) == MEMBERS - 1
        await _check(coordinator, log, clock)

    with_coordinator(run, SETTINGS)


def test_a_group_that_keeps_changing_is_held() -> None:
    async def run(coordinator: GroupCoordinator, log: MemoryLog, clock: ManualClock) -> None:
        await _mixed(coordinator, clock)
        await _leave(coordinator)
        joined, refusals = 0, set[ErrorCode]()
        for _ in range(1_000):
            if isinstance(coordinator.group("g"), Group):
                break
            try:
                answers = await all_of([coordinator.join("g", request())])
                joined += answers[0].error is ErrorCode.none
            except KafkaError as refusal:
                refusals.add(refusal.code)
                with pytest.raises(KafkaError):
                    await upgrade(coordinator, "n")
                await asyncio.sleep(0.001)
        assert refusals == {ErrorCode.coordinator_load_in_progress}
        group = coordinator.classic_group("g")
        assert len(group.membership.members) == MEMBERS + joined
        await _check(coordinator, log, clock)

    with_coordinator(run, SETTINGS)
