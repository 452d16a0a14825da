"""Deadlines of very many members that come together: others have their turn in between.

Here every deadline is a turn of its own. A twin is told all of them at once: in the end both
groups are the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from coordination.groups.classic.scenario import subscription
from coordination.groups.coordinator.test_group_coordinator import until, with_coordinator
from coordination.memory_log import MemoryLog, wake
from drumlin.clock import ManualClock
from drumlin.coordination.groups.consumer.messages import HeartbeatRequest
from drumlin.coordination.groups.coordinator.coordinator import GroupCoordinator
from drumlin.coordination.groups.every_kind.messages import JoinAnswer, JoinRequest, SyncRequest
from drumlin.wire.error_codes import ErrorCode, KafkaError
from rig.time.turn_lengths import single_steps, unhurried

MEMBERS = 60
REBALANCE_MS = 3_000
SESSION_MS = 60_000


def request(member_id: str = "", instance_id: str | None = None) -> JoinRequest:
    protocols = (("range", subscription("t")),)
    return JoinRequest(
        member_id, instance_id, "", "", REBALANCE_MS, SESSION_MS, "consumer", protocols, False
    )


async def stable(
    coordinator: GroupCoordinator,
    clock: ManualClock,
    group_id: str = "g",
    count: int = MEMBERS,
) -> list[JoinAnswer]:
    """Members of a stable group, all heard of just now."""
    joining = [coordinator.join(group_id, request()) for _ in range(count)]
    clock.advance_ms(REBALANCE_MS)
    wake(coordinator)
    joined = [await each for each in joining]
    assignments = [(each.member_id, b"") for each in joined]
    for each in joined:
        said = assignments if each.members else []
        syncing = coordinator.sync(
            group_id,
            SyncRequest(each.member_id, None, each.generation_id, "consumer", "range", said),
        )
        assert (await syncing).error is ErrorCode.none
    return joined


def beat(coordinator: GroupCoordinator, member: JoinAnswer, group_id: str = "g") -> ErrorCode:
    try:
        coordinator.heartbeat(group_id, member.member_id, None, member.generation_id)
    except KafkaError as refusal:
        return refusal.code
    return ErrorCode.none


def members(coordinator: GroupCoordinator, group_id: str = "g") -> set[str]:
    return set(coordinator.classic_group(group_id).membership.members)


async def some_turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.fixture
def every_deadline_is_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    single_steps(monkeypatch)


in_turns = pytest.mark.usefixtures("every_deadline_is_a_turn")


@in_turns
def test_silent_members_are_out_in_many_turns() -> None:
    async def run(coordinator: GroupCoordinator, _: MemoryLog, clock: ManualClock) -> None:
        await stable(coordinator, clock)
        clock.advance_ms(SESSION_MS)
        assert coordinator._alarm.wake()
        seen = set()
        while members(coordinator):
            seen.add(len(members(coordinator)))
            await asyncio.sleep(0)
        assert len(seen) > MEMBERS - 3
        assert coordinator.group("g").state_name == "Empty"

    with_coordinator(run)


@in_turns
def test_whoever_is_heard_of_meanwhile_stays() -> None:
    async def run(coordinator: GroupCoordinator, _: MemoryLog, clock: ManualClock) -> None:
        joined = await stable(coordinator, clock)
        clock.advance_ms(SESSION_MS)
        coordinator._alarm.wake()
        await some_turns()
        left = next(each for each in reversed(joined) if each.member_id in members(coordinator))
        gone = next(each for each in joined if each.member_id not in members(coordinator))
        assert beat(coordinator, left) is ErrorCode.rebalance_in_progress
        assert beat(coordinator, gone) is ErrorCode.unknown_member_id
        await until(lambda: len(members(coordinator)) == 1)
        assert members(coordinator) == {left.member_id}
        again = coordinator.join("g", request(left.member_id))
        assert (await again).leader_id == left.member_id

    with_coordinator(run)


@in_turns
def test_a_steady_member_of_another_group_is_served_in_between() -> None:
    async def run(coordinator: GroupCoordinator, _: MemoryLog, clock: ManualClock) -> None:
        await stable(coordinator, clock)
        clock.advance_ms(SESSION_MS // 2)
        (steady,) = await stable(coordinator, clock, "other", 1)
        clock.advance_ms(SESSION_MS // 2)
        assert coordinator._alarm.wake()
        count = 0
        while members(coordinator):
            assert beat(coordinator, steady, "other") is ErrorCode.none
            await asyncio.sleep(0)
            count += 1
        assert count > MEMBERS // 2
        assert coordinator.group("other").state_name == "Stable"

    with_coordinator(run)


@in_turns
def test_the_groups_move_to_another_broker_meanwhile() -> None:
    async def run(coordinator: GroupCoordinator, log: MemoryLog, clock: ManualClock) -> None:
        await stable(coordinator, clock)
        clock.advance_ms(SESSION_MS)
        coordinator._alarm.wake()
        await some_turns()
        written = len(log.records())
        for partition in range(4):
            coordinator.resign(partition)
        await some_turns(2 * MEMBERS)
        assert len(log.records()) == written
        assert not coordinator._alarm.wake()

    with_coordinator(run)


@in_turns
def test_the_coordinator_ends_meanwhile() -> None:
    async def run(coordinator: GroupCoordinator, log: MemoryLog, clock: ManualClock) -> None:
        await stable(coordinator, clock)
        clock.advance_ms(SESSION_MS)
        coordinator._alarm.wake()
        await some_turns()
        written = len(log.records())
        await coordinator.close()
        await some_turns(2 * MEMBERS)
        assert len(log.records()) == written

    with_coordinator(run)


@in_turns
def test_one_group_that_fails_keeps_the_others_from_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def run(coordinator: GroupCoordinator, _: MemoryLog, clock: ManualClock) -> None:
        for group_id in ("bad", "g"):
            await stable(coordinator, clock, group_id, 3)

        def fail(_: object) -> None:
            raise RuntimeError("wrong")

        monkeypatch.setattr(coordinator.group("bad"), "expire", fail)
        asyncio.get_running_loop().set_exception_handler(lambda _loop, _context: None)
        clock.advance_ms(SESSION_MS)
        coordinator._alarm.set()
        await until(lambda: not members(coordinator))

    with_coordinator(run)


@in_turns
def test_members_of_the_consumer_protocol_are_out_in_turns() -> None:
    async def run(coordinator: GroupCoordinator, log: MemoryLog, clock: ManualClock) -> None:
        for number in range(MEMBERS):
            await coordinator.consumer_heartbeat("g", joining(f"m{number}"))
        clock.advance_ms(45_000)
        assert coordinator._alarm.wake()
        epochs = set()
        while coordinator.consumer_group("g").members:
            epochs.add(coordinator.consumer_group("g").epoch)
            await asyncio.sleep(0)
        assert len(epochs) > MEMBERS - 3
        assert coordinator.group("g").state_name == "Empty"

    with_coordinator(run)


def joining(member_id: str) -> HeartbeatRequest:
    return HeartbeatRequest(member_id, 0, "c", "/h", None, None, 30_000, frozenset(["t"]), owned={})


@in_turns
@pytest.mark.parametrize("absent", [150, 200, 399, 400, 450])
def test_very_many_who_do_not_join_again_are_out_in_turns(absent: int) -> None:
    """Those who join as long as they are not are in the next generation."""

    async def run(coordinator: GroupCoordinator, _: MemoryLog, clock: ManualClock) -> None:
        joined = await stable(coordinator, clock, count=absent + 2)
        waiting = [coordinator.join("g", request(each.member_id)) for each in joined[:1]]
        clock.advance_ms(REBALANCE_MS)
        while len(members(coordinator)) == absent + 2 and coordinator._alarm.wake():
            pass
        left = members(coordinator)
        assert len(left) == max(absent + 2 - 200, 1)
        last = joined[-1].member_id
        if last in left:
            waiting.append(coordinator.join("g", request(last)))
        wake(coordinator)
        answers = [await each for each in waiting]
        assert members(coordinator) == {each.member_id for each in answers}
        assert {each.generation_id for each in answers} == {2}

    with_coordinator(run)


def test_the_twin_that_does_not_give_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some members are heard of, some join again, some are gone: which of them was told when."""
    results = []
    for have_turns in (single_steps, unhurried):
        have_turns(monkeypatch)
        results.append(_live())
    assert results[0] == results[1]


def _live() -> list[object]:
    seen: list[object] = []

    async def run(coordinator: GroupCoordinator, _: MemoryLog, clock: ManualClock) -> None:
        joined = await stable(coordinator, clock)
        clock.advance_ms(SESSION_MS // 2)
        for each in joined[::3]:
            seen.append(beat(coordinator, each))
        clock.advance_ms(SESSION_MS // 2)
        await told(coordinator, lambda: len(members(coordinator)) == MEMBERS // 3)
        again = [coordinator.join("g", request(each.member_id)) for each in joined[::6]]
        clock.advance_ms(REBALANCE_MS)
        await told(coordinator, lambda: all(each.done() for each in again))
        answers = [await each for each in again]
        seen.extend((each.error, each.generation_id, len(each.members)) for each in answers)
        seen.append(len(members(coordinator)))

    async def told(coordinator: GroupCoordinator, condition: Callable[[], bool]) -> None:
        coordinator._alarm.set()
        await until(condition)

    with_coordinator(run)
    return seen
