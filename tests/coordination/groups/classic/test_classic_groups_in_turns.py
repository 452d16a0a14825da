"""What a classic group decides for all of its members, and what comes in between as that is done.

Here every step is a turn, and all that may happen in between does: when the leader's assignment is
made a record, when that is encoded, and when the members are told. Whatever it is, no member is
left waiting, and the log agrees with the memory.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from coordination.groups.classic.classic_members import (
    MEMBERS,
    SESSION_MS,
    Members,
    all_of,
    answered,
    check_log,
    first_generation,
    request,
    settled,
    some_turns,
    stored,
    sync,
)
from coordination.groups.coordinator.test_group_coordinator import (
    loaded,
    position,
    with_coordinator,
)
from coordination.memory_log import MemoryLog, wake
from drumlin.clock import ManualClock
from drumlin.coordination.groups.consumer.messages import HeartbeatRequest
from drumlin.coordination.groups.coordinator.coordinator import GroupCoordinator
from drumlin.coordination.groups.every_kind.messages import LeavingMember, SyncAnswer
from drumlin.coordination.groups.offsets.commit import Commit
from drumlin.coordination.shards.state_partitions import partition_for
from drumlin.turns import to_end
from drumlin.wire.error_codes import ErrorCode, KafkaError
from rig.data.committed_offsets import commit_offsets

pytestmark = pytest.mark.usefixtures("every_step_is_a_turn")


Event = Callable[[GroupCoordinator, ManualClock, Members], list[Awaitable[Any]]]


def somebody_joins(coordinator: GroupCoordinator, _: ManualClock, __: Members) -> Any:
    return [coordinator.join("g", request())]


def the_leader_leaves(coordinator: GroupCoordinator, _: ManualClock, members: Members) -> Any:
    return [coordinator.leave("g", [LeavingMember(members[0].member_id)])]


def another_leaves(coordinator: GroupCoordinator, _: ManualClock, members: Members) -> Any:
    return [coordinator.leave("g", [LeavingMember(members[3].member_id)])]


def most_leave(coordinator: GroupCoordinator, _: ManualClock, members: Members) -> Any:
    return [coordinator.leave("g", [LeavingMember(each.member_id) for each in members[2:]])]


def the_leader_asks_again(coordinator: GroupCoordinator, _: ManualClock, members: Members) -> Any:
    return sync(coordinator, members[:1])


def a_member_asks_again(coordinator: GroupCoordinator, _: ManualClock, members: Members) -> Any:
    return sync(coordinator, members[2:3])


def the_leader_joins_again(coordinator: GroupCoordinator, _: ManualClock, members: Members) -> Any:
    return [coordinator.join("g", request(members[0].member_id))]


def a_member_joins_again(coordinator: GroupCoordinator, _: ManualClock, members: Members) -> Any:
    return [coordinator.join("g", request(members[2].member_id, topics="u"))]


def a_static_member_comes_back(coordinator: GroupCoordinator, _: ManualClock, __: Members) -> Any:
    return [coordinator.join("g", request(instance_id="static"))]


def sessions_end(coordinator: GroupCoordinator, clock: ManualClock, _: Members) -> Any:
    """A member that waits, or is about to be told, stays."""
    clock.advance_ms(SESSION_MS)
    coordinator._alarm.set()
    return []


def members_beat(coordinator: GroupCoordinator, _: ManualClock, members: Members) -> Any:
    for each in members[:-1]:
        coordinator.heartbeat("g", each.member_id, None, each.generation_id)
    return []


def a_member_commits(coordinator: GroupCoordinator, _: ManualClock, members: Members) -> Any:
    """It may, as soon as the group is stable."""
    member = members[1]
    told = Commit("g", member.member_id, None, member.generation_id, None, (position(5),))
    if coordinator.classic_group("g").state_name == "Stable":
        return [commit_offsets(coordinator, told)]
    with pytest.raises(KafkaError) as refusal:
        commit_offsets(coordinator, told)
    assert refusal.value.code is ErrorCode.rebalance_in_progress
    return []


def somebody_deletes_it(coordinator: GroupCoordinator, _: ManualClock, __: Members) -> Any:
    with pytest.raises(KafkaError) as refusal:
        to_end(coordinator.delete("g"))
    assert refusal.value.code is ErrorCode.non_empty_group
    return []


EVENTS: list[Event] = [
    somebody_joins,
    the_leader_leaves,
    another_leaves,
    most_leave,
    the_leader_asks_again,
    a_member_asks_again,
    the_leader_joins_again,
    a_member_joins_again,
    a_static_member_comes_back,
    sessions_end,
    members_beat,
    a_member_commits,
    somebody_deletes_it,
]


def _name(event: Event) -> str:
    return event.__name__


@pytest.mark.parametrize("turns_before", [0, 3, 10, 18, 22])
@pytest.mark.parametrize("event", EVENTS, ids=_name)
def test_while_an_assignment_is_made_a_record_and_told(event: Event, turns_before: int) -> None:
    async def run(coordinator: GroupCoordinator, log: MemoryLog, clock: ManualClock) -> None:
        members = await first_generation(coordinator, clock)
        waiting: list[Awaitable[Any]] = [*sync(coordinator, members)]
        await some_turns(turns_before)
        waiting += event(coordinator, clock, members)
        answers = await answered(coordinator, clock, waiting)
        assert not [each for each in answers if isinstance(each, AssertionError)]
        for each in answers[:MEMBERS]:
            assert each.error in (ErrorCode.none, *_TOLD)
            assert each.error is not ErrorCode.none or each.assignment.endswith(b"@1")
        await settled(coordinator, clock, members)
        await check_log(coordinator, log, clock)

    with_coordinator(run)


#: What a member may hear in place of its assignment: join again, or come in as another member.
_TOLD = (
    ErrorCode.rebalance_in_progress,
    ErrorCode.unknown_member_id,
    ErrorCode.fenced_instance_id,
)


@pytest.mark.parametrize("event", EVENTS, ids=_name)
def test_while_a_record_is_encoded(event: Event, gate: threading.Event) -> None:
    """Which is done in a thread. Nothing is written that the group does not await any more."""

    async def run(coordinator: GroupCoordinator, log: MemoryLog, clock: ManualClock) -> None:
        members = await first_generation(coordinator, clock)
        waiting: list[Awaitable[Any]] = [*sync(coordinator, members)]
        await some_turns(60)
        assert coordinator.classic_group("g").state_name == "CompletingRebalance"
        waiting += event(coordinator, clock, members)
        is_history = coordinator.classic_group("g").state_name != "CompletingRebalance"
        gate.set()
        await answered(coordinator, clock, waiting)
        assert (len(stored(log)) < 2) is is_history or event is sessions_end
        await settled(coordinator, clock, members)
        await check_log(coordinator, log, clock)

    with_coordinator(run)


@pytest.mark.parametrize("turns_before", [0, 5, 12, 20])
@pytest.mark.parametrize("event", EVENTS, ids=_name)
def test_while_a_generation_is_told(event: Event, turns_before: int) -> None:
    async def run(coordinator: GroupCoordinator, log: MemoryLog, clock: ManualClock) -> None:
        members = await first_generation(coordinator, clock)
        await all_of(sync(coordinator, members))
        joining = [coordinator.join("g", request(topics="t"))]
        for each in members:
            instance_id = "static" if each.member_id.startswith("static") else None
            joining.append(coordinator.join("g", request(each.member_id, instance_id)))
        await some_turns(turns_before)
        members = [each._replace(generation_id=2) for each in members]
        waiting = [*joining, *event(coordinator, clock, members)]
        answers = await answered(coordinator, clock, waiting)
        assert {each.error for each in answers[: len(joining)]} <= {ErrorCode.none, *_TOLD}
        await settled(coordinator, clock, members)
        await check_log(coordinator, log, clock)

    with_coordinator(run)


@pytest.mark.parametrize("turns_before", [0, 5, 18, 22])
@pytest.mark.parametrize("closes", [False, True])
def test_the_coordinator_ends_meanwhile(closes: bool, turns_before: int) -> None:
    async def run(coordinator: GroupCoordinator, log: MemoryLog, clock: ManualClock) -> None:
        members = await first_generation(coordinator, clock)
        syncing = sync(coordinator, members)
        await some_turns(turns_before)
        before = len(stored(log))
        if closes:
            await coordinator.close()
        else:
            coordinator.resign(partition_for("g", 4))
        answers = await all_of(syncing)
        assert {each.error for each in answers} <= {ErrorCode.none, ErrorCode.not_coordinator}
        await some_turns(100)
        assert len(stored(log)) == before

    with_coordinator(run)


def test_the_group_moves_away_and_comes_back_while_it_is_encoded(gate: threading.Event) -> None:
    """What the former coordinator was about to write is not written by the next one."""

    async def run(coordinator: GroupCoordinator, log: MemoryLog, clock: ManualClock) -> None:
        members = await first_generation(coordinator, clock)
        syncing = sync(coordinator, members)
        await some_turns(60)
        partition = partition_for("g", 4)
        coordinator.resign(partition)
        coordinator.become_leader(partition, 1)
        await loaded(coordinator)
        gate.set()
        assert {each.error for each in await all_of(syncing)} == {ErrorCode.not_coordinator}
        await some_turns(100)
        assert [each for each in stored(log) if each is not None and each.members] == []
        # Deadlines that its members had before find no member.
        clock.advance_ms(10 * SESSION_MS)
        wake(coordinator)
        assert not coordinator.classic_group("g").membership.members

    with_coordinator(run)


def test_it_comes_back_before_the_former_ones_know_that_it_has_gone(gate: threading.Event) -> None:
    """There are many groups, which hear of it in turns, and this one comes last."""

    async def run(coordinator: GroupCoordinator, log: MemoryLog, clock: ManualClock) -> None:
        partition = partition_for("g", 4)
        for number in range(1_000):
            if partition_for(f"before-{number}", 4) == partition:
                coordinator.join(f"before-{number}", request())
        members = await first_generation(coordinator, clock)
        syncing = sync(coordinator, members)
        await some_turns(60)
        coordinator.resign(partition)
        coordinator.become_leader(partition, 1)
        gate.set()
        assert {each.error for each in await all_of(syncing)} == {ErrorCode.not_coordinator}
        await loaded(coordinator)
        assert [each for each in stored(log) if each is not None and each.members] == []

    with_coordinator(run)


def test_it_becomes_a_consumer_group_while_it_is_encoded(gate: threading.Event) -> None:
    async def run(coordinator: GroupCoordinator, log: MemoryLog, clock: ManualClock) -> None:
        members = await first_generation(coordinator, clock)
        await all_of(_let_through(gate, sync(coordinator, members)))
        gate.clear()
        members = [
            each
            for each in await _join_again(coordinator, clock, members)
            if each.error is ErrorCode.none
        ]
        syncing = sync(coordinator, members)
        await some_turns(60)
        modern = HeartbeatRequest("m", 0, "c", "/h", None, None, 30_000, frozenset(["t"]), owned={})
        with pytest.raises(KafkaError):  # what was assigned cannot be understood
            await coordinator.consumer_heartbeat("g", modern)
        gate.set()
        assert {each.error for each in await all_of(syncing)} == {ErrorCode.none}
        await check_log(coordinator, log, clock)

    with_coordinator(run)


def _let_through(
    gate: threading.Event, waiting: list[asyncio.Future[SyncAnswer]]
) -> list[asyncio.Future[SyncAnswer]]:
    gate.set()
    return waiting


async def _join_again(
    coordinator: GroupCoordinator, clock: ManualClock, members: Members
) -> Members:
    joining = [coordinator.join("g", request())]
    for each in members:
        instance_id = "static" if each.member_id.startswith("static") else None
        joining.append(coordinator.join("g", request(each.member_id, instance_id)))
    return await all_of(joining)
