"""A classic group of very many members: whatever it decides, others have their turn."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from coordination.groups.classic.classic_members import (
    REBALANCE_MS,
    all_of,
    assignments,
    check_log,
    first_generation,
    request,
    settled,
    some_turns,
    stored,
    sync,
)
from coordination.groups.classic.scenario import subscription
from coordination.groups.coordinator.test_group_coordinator import commit, loaded, with_coordinator
from coordination.memory_log import MemoryLog, lead_all, new_coordinator, wake
from coordination.settings import Settings
from drumlin.clock import ManualClock
from drumlin.coordination.groups.coordinator import answer_queue, classic_store
from drumlin.coordination.groups.coordinator.coordinator import GroupCoordinator
from drumlin.coordination.groups.every_kind.messages import JoinAnswer, JoinRequest, SyncRequest
from drumlin.wire.error_codes import ErrorCode
from rig.time.turn_lengths import unhurried

pytestmark = pytest.mark.usefixtures("every_step_is_a_turn")


def test_others_have_their_turn_all_the_time() -> None:
    """Turns are counted, as they pass, of a task that asks for nothing but turns."""

    async def run(coordinator: GroupCoordinator, log: MemoryLog, clock: ManualClock) -> None:
        count = 300
        joining = [coordinator.join("g", request()) for _ in range(count)]
        clock.advance_ms(REBALANCE_MS)
        wake(coordinator)
        passed = [await _turns_until(lambda: all(each.done() for each in joining))]
        members = [await each for each in joining]
        group = coordinator.classic_group("g")
        passed.append(await _turns_until(lambda: group.subscribed_topics == {"t"}))
        syncing = sync(coordinator, members)
        passed.append(await _turns_until(lambda: group.state_name == "Stable"))
        passed.append(await _turns_until(lambda: all(each.done() for each in syncing)))
        again = new_coordinator(log, clock=clock)
        again.start()
        lead_all(again, log)
        await loaded(again)
        assert assignments(again.classic_group("g")) == assignments(group)
        await again.close()
        # The members for the leader and the members; their topics; what they have; the answers.
        expected = [2 * count, count, 2 * count, count]
        assert all(a >= b - 5 for a, b in zip(passed, expected, strict=True)), passed

    with_coordinator(run)


async def _turns_until(condition: Callable[[], bool]) -> int:
    for passed in range(100_000):
        if condition():
            return passed
        await asyncio.sleep(0)
    raise AssertionError("waited in vain")


def test_what_is_decided_at_once_for_few_members_needs_no_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    unhurried(monkeypatch)
    monkeypatch.setattr(classic_store, "_MEMBERS_AT_ONCE", 200)
    monkeypatch.setattr(answer_queue, "TURN_S", 10)

    async def run(coordinator: GroupCoordinator, _: MemoryLog, clock: ManualClock) -> None:
        joining = [coordinator.join("g", request()) for _ in range(20)]
        clock.advance_ms(REBALANCE_MS)
        wake(coordinator)
        members = [each.result() for each in joining]
        leader = next(each for each in members if each.members)
        said = [(each.member_id, b"x") for each in members]
        for each in members:
            asked = said if each is leader else []
            answer = coordinator.sync(
                "g", SyncRequest(each.member_id, None, 1, "consumer", "range", asked)
            )
            assert answer.result().assignment == b"x"  # the leader is the first of them

    with_coordinator(run)


@pytest.mark.parametrize("error", [ErrorCode.kafka_storage_error, ErrorCode.message_too_large])
def test_a_record_that_cannot_be_written(error: ErrorCode) -> None:
    """Everybody hears of it, and the group tries again."""

    async def run(coordinator: GroupCoordinator, log: MemoryLog, clock: ManualClock) -> None:
        members = await first_generation(coordinator, clock)
        log.error = error
        syncing = sync(coordinator, members)
        told = {each.error for each in await all_of(syncing)}
        assert len(told) == 1
        assert ErrorCode.none not in told
        log.error = None
        await settled(coordinator, clock, members)
        await check_log(coordinator, log, clock)

    with_coordinator(run)


async def _stable_static(
    coordinator: GroupCoordinator, clock: ManualClock, gate: threading.Event
) -> None:
    """Six of them; records are held up from now on."""
    joining = [coordinator.join("g", request(instance_id=f"static{n}")) for n in range(6)]
    clock.advance_ms(REBALANCE_MS)
    wake(coordinator)
    members = [await each for each in joining]
    said = [(each.member_id, each.member_id.encode()) for each in members]
    gate.set()
    for number, each in enumerate(members):
        shares = said if not number else []
        asked = SyncRequest(each.member_id, f"static{number}", 1, "consumer", "range", shares)
        assert (await coordinator.sync("g", asked)).error is ErrorCode.none
    gate.clear()


def test_static_members_that_come_back_are_stored_together(gate: threading.Event) -> None:
    """The log's last word has them all, though the first record was not done when others came.

    Who comes while that one is made shares the next: a record of all members for each of very many
    that restart would fill the log.
    """

    async def run(coordinator: GroupCoordinator, log: MemoryLog, clock: ManualClock) -> None:
        await _stable_static(coordinator, clock, gate)
        back = [coordinator.join("g", request(instance_id=f"static{n}")) for n in (2, 0, 4, 5)]
        await some_turns(60)
        assert not any(each.done() for each in back)
        gate.set()
        answers = await all_of(back)
        assert {(each.error, each.generation_id) for each in answers} == {(ErrorCode.none, 1)}
        assert len(stored(log)) == 1 + 1 + 2
        last = stored(log)[-1]
        assert last is not None
        ids = {each.member_id: each.assignment for each in last.members}
        assert ids == assignments(coordinator.classic_group("g"))
        assert {each.member_id for each in answers} <= ids.keys()

    with_coordinator(run, Settings(group_initial_rebalance_delay_ms=REBALANCE_MS))


@pytest.mark.parametrize("again", [2, 0, 4])
@pytest.mark.parametrize("turns_before", [0, 60])
def test_of_those_who_are_stored_together_one_comes_back_again(
    again: int, turns_before: int, gate: threading.Event
) -> None:
    async def run(coordinator: GroupCoordinator, log: MemoryLog, clock: ManualClock) -> None:
        await _stable_static(coordinator, clock, gate)
        order = [2, 0, 4]
        back = [coordinator.join("g", request(instance_id=f"static{n}")) for n in order]
        await some_turns(turns_before)
        latest = coordinator.join("g", request(instance_id=f"static{again}"))
        gate.set()
        answers = await all_of([*back, latest])
        fenced = [each.error is ErrorCode.fenced_instance_id for each in answers]
        assert fenced == [each == again for each in order] + [False]
        told = {each.member_id for each in answers if each.error is ErrorCode.none}
        last = stored(log)[-1]
        assert last is not None
        ids = {each.member_id: each.assignment for each in last.members}
        assert ids == assignments(coordinator.classic_group("g"))
        assert len(told) == 3
        assert told <= ids.keys()

    with_coordinator(run, Settings(group_initial_rebalance_delay_ms=REBALANCE_MS))


def test_those_who_cannot_be_stored_together_come_again(gate: threading.Event) -> None:
    async def run(coordinator: GroupCoordinator, log: MemoryLog, clock: ManualClock) -> None:
        await _stable_static(coordinator, clock, gate)
        log.error = ErrorCode.kafka_storage_error
        back = [coordinator.join("g", request(instance_id=f"static{n}")) for n in (2, 0, 4)]
        gate.set()
        assert {each.error for each in await all_of(back)} == {ErrorCode.not_coordinator}
        log.error = None
        first = stored(log)[-1]
        assert first is not None
        assert {each.member_id for each in first.members} == set(
            assignments(coordinator.classic_group("g"))
        )
        back = [coordinator.join("g", request(instance_id=f"static{n}")) for n in (2, 0, 4)]
        assert {each.error for each in await all_of(back)} == {ErrorCode.none}

    with_coordinator(run, Settings(group_initial_rebalance_delay_ms=REBALANCE_MS))


def test_a_small_record_does_not_overtake_a_large_one(
    monkeypatch: pytest.MonkeyPatch, gate: threading.Event
) -> None:
    """As long as one member says much, the group is encoded in a thread."""
    unhurried(monkeypatch)
    monkeypatch.setattr(classic_store, "_MEMBERS_AT_ONCE", 200)

    def asking(instance_id: str, size: int) -> JoinRequest:
        protocols = (("range", subscription("t") + bytes(size)),)
        return replace(request(instance_id=instance_id), protocols=protocols)

    async def run(coordinator: GroupCoordinator, log: MemoryLog, clock: ManualClock) -> None:
        joining = [
            coordinator.join("g", asking(*each)) for each in (("static0", 70_000), ("static1", 0))
        ]
        clock.advance_ms(REBALANCE_MS)
        wake(coordinator)
        members = [await each for each in joining]
        gate.set()
        for number, each in enumerate(members):
            asked = SyncRequest(each.member_id, f"static{number}", 1, "consumer", "range", [])
            assert (await coordinator.sync("g", asked)).error is ErrorCode.none
        gate.clear()
        back = [coordinator.join("g", asking(*each)) for each in (("static1", 0), ("static0", 0))]
        await some_turns(20)
        gate.set()
        ids = {each.member_id for each in await all_of(back)}
        last = stored(log)[-1]
        assert last is not None
        assert {each.member_id for each in last.members} == ids

    with_coordinator(run)


@pytest.mark.parametrize("absent", [3, 199, 200, 450])
def test_very_many_who_do_not_sync_are_out_in_turns(absent: int) -> None:
    """Those who join again before their turn comes stay."""

    async def run(coordinator: GroupCoordinator, _: MemoryLog, clock: ManualClock) -> None:
        joining = [coordinator.join("g", request()) for _ in range(absent + 2)]
        clock.advance_ms(REBALANCE_MS)
        wake(coordinator)
        members = [await each for each in joining]
        syncing = sync(coordinator, members[1:3])
        clock.advance_ms(REBALANCE_MS)
        group = coordinator.classic_group("g")
        while len(group.membership.members) == absent + 2:
            coordinator._alarm.wake()
        left = len(group.membership.members)
        assert left == max(absent + 2 - 200, 2)
        back = [coordinator.join("g", request(each.member_id)) for each in members[1:3]]
        late = next(
            (each for each in list(group.membership.members) if not _is(each, members[1:3])), None
        )
        if late is not None:
            back.append(coordinator.join("g", request(late)))
        wake(coordinator)
        assert {each.error for each in await all_of(syncing)} == {ErrorCode.rebalance_in_progress}
        answers = await all_of(back)
        assert {(each.error, each.generation_id) for each in answers} == {(ErrorCode.none, 2)}
        assert set(group.membership.members) == {each.member_id for each in answers}

    with_coordinator(run)


def _is(member_id: str, members: Sequence[JoinAnswer]) -> bool:
    return member_id in {each.member_id for each in members}


def test_much_in_few_members_is_encoded_apart(
    monkeypatch: pytest.MonkeyPatch, gate: threading.Event
) -> None:
    unhurried(monkeypatch)
    monkeypatch.setattr(classic_store, "_MEMBERS_AT_ONCE", 200)

    async def run(coordinator: GroupCoordinator, log: MemoryLog, clock: ManualClock) -> None:
        members = await first_generation(coordinator, clock, 2)
        said = [(each.member_id, bytes(100_000)) for each in members]
        leader = next(each for each in members if each.members)
        asked = SyncRequest(leader.member_id, None, 1, "consumer", "range", said)
        answer = coordinator.sync("g", asked)
        await some_turns(10)
        assert not answer.done()
        gate.set()
        assert len((await answer).assignment) == 100_000
        assert commit("g") is not None

    with_coordinator(run)
