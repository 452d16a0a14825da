"""What happens to a group of many members while it is converted, in several turns of the loop."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from coordination.groups.classic.classic_members import (
    MEMBERS,
    SESSION_MS,
    Members,
    all_of,
    converted,
    request,
    some_turns,
)
from coordination.groups.consumer.test_conversions import SETTINGS, stable, upgrade
from coordination.groups.consumer.test_conversions import sync as all_sync
from coordination.groups.coordinator.test_group_coordinator import with_coordinator
from coordination.memory_log import TOPIC_ID, MemoryLog, wake
from drumlin.clock import ManualClock
from drumlin.coordination.groups.classic.group import Group
from drumlin.coordination.groups.consumer.group import ConsumerGroup
from drumlin.coordination.groups.consumer.messages import HeartbeatRequest
from drumlin.coordination.groups.coordinator.coordinator import GroupCoordinator
from drumlin.coordination.groups.coordinator.upgrades import Upgrades
from drumlin.coordination.groups.every_kind.messages import LeavingMember, SyncRequest
from drumlin.wire.embedded_protocol import write_assignment
from drumlin.wire.error_codes import ErrorCode, KafkaError

pytestmark = pytest.mark.usefixtures("every_step_is_a_turn")

_A_FEW_TURNS = 5


def _leaves() -> HeartbeatRequest:
    return HeartbeatRequest("m", -1, "c", "/h", None, None, None, None)


async def _begun(coordinator: GroupCoordinator, asked: Any) -> asyncio.Future[Any]:
    answer = asyncio.ensure_future(asked)
    await some_turns(_A_FEW_TURNS)
    assert coordinator._upgrades.is_under_way("g")
    assert not answer.done()
    return answer


async def _everything(coordinator: GroupCoordinator, members: Members) -> list[Any]:
    """A request of each kind for the group, while it is converted."""
    first, second, third = members[:3]
    coordinator.heartbeat("g", first.member_id, None, first.generation_id)
    sync = SyncRequest(third.member_id, None, third.generation_id, "consumer", "range", [])
    asked = [
        asyncio.ensure_future(each)
        for each in (
            coordinator.join("g", request()),
            coordinator.leave("g", [LeavingMember(second.member_id, None, "")]),
            coordinator.sync("g", sync),
            upgrade(coordinator, "n"),
        )
    ]
    await some_turns(_A_FEW_TURNS)
    assert not any(each.done() for each in asked)
    return asked


def test_requests_wait_for_the_consumer_group() -> None:
    async def run(coordinator: GroupCoordinator, _: MemoryLog, clock: ManualClock) -> None:
        members = await stable(coordinator, clock)
        upgrading = await _begun(coordinator, upgrade(coordinator))
        assert coordinator.classic_group("g").membership.members  # until the end
        asked = await _everything(coordinator, members)
        joined, left, synced, beat = await all_of(asked)
        assert (await upgrading).member_id == "m"
        assert (joined.error, left) == (ErrorCode.none, [ErrorCode.none])
        assert synced.error is ErrorCode.none
        assert beat.member_id == "n"
        group = coordinator.consumer_group("g")
        assert {"m", "n", joined.member_id} <= group.members.keys()
        assert members[1].member_id not in group.members
        assert len(group.members) == MEMBERS + 2

    with_coordinator(run, SETTINGS)


def test_requests_wait_for_the_classic_group() -> None:
    async def run(coordinator: GroupCoordinator, _: MemoryLog, clock: ManualClock) -> None:
        members = await stable(coordinator, clock)
        await upgrade(coordinator)
        leaving = await _begun(coordinator, coordinator.consumer_heartbeat("g", _leaves()))
        assert coordinator.consumer_group("g").members  # until the end
        asked = await _everything(coordinator, members)
        _, left, synced, beat = await all_of(asked[1:2] + asked[1:])
        assert (await leaving).epoch == -1
        assert left == [ErrorCode.none]
        assert isinstance(synced, KafkaError) or synced.error is not ErrorCode.none
        assert beat.member_id == "n"
        group = coordinator.consumer_group("g")  # as "n" has come
        assert "m" not in group.members
        assert members[1].member_id not in group.members
        asked[0].cancel()

    with_coordinator(run, SETTINGS)


def test_a_deadline_that_passes_meanwhile_is_not_forgotten() -> None:
    async def run(coordinator: GroupCoordinator, _: MemoryLog, clock: ManualClock) -> None:
        await stable(coordinator, clock)
        upgrading = await _begun(coordinator, upgrade(coordinator))
        clock.advance_ms(SESSION_MS - 1_000)
        wake(coordinator)
        await upgrading
        assert len(coordinator.consumer_group("g").members) == MEMBERS + 1
        for _ in range(3):
            clock.advance_ms(SESSION_MS)
            wake(coordinator)
            await converted(coordinator)
        assert coordinator.group("g").is_deletable

    with_coordinator(run, SETTINGS)


def test_a_group_that_changes_meanwhile_is_converted_as_it_is_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def run(coordinator: GroupCoordinator, log: MemoryLog, clock: ManualClock) -> None:
        members = await stable(coordinator, clock)
        made = 0
        make = Upgrades._made

        def counted(*args: Any) -> Any:
            nonlocal made
            made += 1
            return make(*args)

        monkeypatch.setattr(Upgrades, "_made", counted)
        upgrading = await _begun(coordinator, upgrade(coordinator))
        group = coordinator.classic_group("g")
        group.membership.members[members[0].member_id].assignment = b"\0\0" + bytes(8)
        await some_turns(_A_FEW_TURNS)
        group.membership.remove(members[3].member_id)
        await upgrading
        assert made == 2
        assert members[3].member_id not in coordinator.consumer_group("g").members

        made = 0
        await coordinator.consumer_heartbeat("g", _leaves())
        upgrading = await _begun(coordinator, upgrade(coordinator))
        group = coordinator.classic_group("g")
        while not upgrading.done():  # it never comes to rest
            for each in list(group.membership.members.values())[:1]:
                each.session_timeout_ms += 1
            await asyncio.sleep(0)
        await upgrading
        assert made == 3
        assert isinstance(coordinator.group("g"), ConsumerGroup)

    with_coordinator(run, SETTINGS)


@pytest.mark.parametrize("changes", [1, 1_000])
def test_a_consumer_group_that_changes_meanwhile(
    changes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It becomes a classic one as it is then; at last in one turn."""

    async def run(coordinator: GroupCoordinator, _: MemoryLog, clock: ManualClock) -> None:
        members = await stable(coordinator, clock)
        await upgrade(coordinator)
        made, make = 0, Upgrades._made_classic

        def counted(*args: Any) -> Any:
            nonlocal made
            made += 1
            return make(*args)

        monkeypatch.setattr(Upgrades, "_made_classic", counted)
        group = coordinator.consumer_group("g")
        target = {TOPIC_ID: frozenset([3])}
        leaving = await _begun(coordinator, coordinator.consumer_heartbeat("g", _leaves()))
        for _ in range(changes):
            group.follow(group.target_epoch, {members[0].member_id: target})
            await some_turns(_A_FEW_TURNS)
            if leaving.done():
                break
        assert (await leaving).epoch == -1
        assert made == (2 if changes == 1 else 3)
        classic = coordinator.classic_group("g").membership.members
        assert len(classic) == MEMBERS
        assert classic[members[0].member_id].assignment == write_assignment(0, {"t": [3]})

    with_coordinator(run, SETTINGS)


@pytest.mark.parametrize("is_downgrade", [False, True])
def test_a_partition_that_moves_meanwhile(is_downgrade: bool) -> None:
    """Whoever waits is told to look for the coordinator; nothing is written."""

    async def run(coordinator: GroupCoordinator, log: MemoryLog, clock: ManualClock) -> None:
        members = await stable(coordinator, clock)
        if is_downgrade:
            await upgrade(coordinator)
            asked = coordinator.consumer_heartbeat("g", _leaves())
        else:
            asked = upgrade(coordinator)
        converting = await _begun(coordinator, asked)
        held = await _everything(coordinator, members)
        written = len(log.records())
        for partition in range(4):
            coordinator.resign(partition)
        answers = await all_of([converting, *held])
        assert {each.code for each in answers} == {ErrorCode.not_coordinator}
        assert len(log.records()) == written

    with_coordinator(run, SETTINGS)


@pytest.mark.parametrize("is_downgrade", [False, True])
def test_what_cannot_be_written_lets_those_who_wait_go_on(is_downgrade: bool) -> None:
    async def run(coordinator: GroupCoordinator, log: MemoryLog, clock: ManualClock) -> None:
        members = await stable(coordinator, clock)
        if is_downgrade:
            await upgrade(coordinator)
            asked = coordinator.consumer_heartbeat("g", _leaves())
        else:
            asked = upgrade(coordinator)
        converting = await _begun(coordinator, asked)
        held = asyncio.ensure_future(coordinator.leave("g", [LeavingMember("unknown", None, "")]))
        log.error = ErrorCode.not_enough_replicas
        (failure,) = await all_of([converting])
        log.error = None
        assert failure.code is ErrorCode.coordinator_not_available
        assert await held == [ErrorCode.unknown_member_id]
        group = coordinator.group("g")
        assert isinstance(group, ConsumerGroup if is_downgrade else Group)
        assert members[0].member_id in (
            group.members if isinstance(group, ConsumerGroup) else group.membership.members
        )

    with_coordinator(run, SETTINGS)


def test_all_members_get_their_assignment() -> None:
    async def run(coordinator: GroupCoordinator, _: MemoryLog, clock: ManualClock) -> None:
        members = await stable(coordinator, clock)
        await upgrade(coordinator)
        await coordinator.consumer_heartbeat("g", _leaves())
        group = coordinator.classic_group("g")
        joining = [
            coordinator.join(
                "g",
                request(
                    each.member_id,
                    "static" if each.member_id.startswith("static") else None,
                ),
            )
            for each in members
        ]
        joined = await all_of(joining)
        assert {each.error for each in joined} == {ErrorCode.none}
        told = await all_of(all_sync(coordinator, joined))
        assert {each.error for each in told} == {ErrorCode.none}
        assert len(group.membership.members) == MEMBERS

    with_coordinator(run, SETTINGS)
