"""Groups whose members are live become consumer groups, and classic ones again: by one batch."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from coordination import memory_log
from coordination.groups.classic.classic_members import (
    MEMBERS,
    REBALANCE_MS,
    SESSION_MS,
    Members,
    all_of,
    converted,
    first_generation,
    request,
    settled,
    some_turns,
    stored,
)
from coordination.groups.coordinator.test_group_coordinator import loaded, with_coordinator
from coordination.memory_log import TOPIC_ID, MemoryLog, lead_all, new_coordinator, wake
from coordination.settings import Settings
from drumlin.clock import ManualClock
from drumlin.coordination.groups.classic.group import Group
from drumlin.coordination.groups.consumer import classic_members, departure
from drumlin.coordination.groups.consumer.messages import HeartbeatAnswer, HeartbeatRequest
from drumlin.coordination.groups.coordinator import upgrades
from drumlin.coordination.groups.coordinator.coordinator import GroupCoordinator
from drumlin.coordination.groups.every_kind.messages import LeavingMember, SyncRequest
from drumlin.coordination.groups.every_kind.states import DeadlineKind
from drumlin.coordination.groups.offsets.commit import Commit
from drumlin.wire.embedded_protocol import write_assignment
from drumlin.wire.error_codes import ErrorCode, KafkaError
from rig.data.committed_offsets import commit_offsets, position
from rig.time.turn_lengths import single_steps

NOTHING = write_assignment(0, {})
SETTINGS = Settings(
    group_initial_rebalance_delay_ms=REBALANCE_MS, group_consumer_migration_policy="bidirectional"
)
#: A batch of a member or two.
_SMALL_BYTES = 1_000


@pytest.fixture(autouse=True, params=[False, True], ids=["at once", "in turns"])
def is_in_turns(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether groups are converted over several turns of the loop, as those of many members are."""
    if request.param:
        for converting in (upgrades, departure, classic_members):
            monkeypatch.setattr(converting, "MEMBERS_AT_ONCE", 0)
        single_steps(monkeypatch)
    return bool(request.param)


Do = Callable[[GroupCoordinator, ManualClock, Members], Awaitable[None]]


def sync(coordinator: GroupCoordinator, members: Members) -> list[Awaitable[Any]]:
    said = [(each.member_id, NOTHING) for each in members]
    return [coordinator.sync("g", _sync_request(each, said)) for each in members]


def _sync_request(member: Any, said: list[tuple[str, bytes]]) -> SyncRequest:
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


async def _mixed(coordinator: GroupCoordinator, clock: ManualClock) -> Members:
    members = await stable(coordinator, clock)
    await upgrade(coordinator)
    assert coordinator.consumer_group("g").classic_count == MEMBERS
    return members


async def _leave(coordinator: GroupCoordinator) -> None:
    leaving = HeartbeatRequest("m", -1, "c", "/h", None, None, None, None)
    assert (await coordinator.consumer_heartbeat("g", leaving)).epoch == -1


async def _check_consumer(
    coordinator: GroupCoordinator, log: MemoryLog, clock: ManualClock
) -> None:
    """Another coordinator reads the same group."""
    await some_turns(100)
    assert stored(log)[-1] is None
    again = await _another(log, clock)
    group, twin = coordinator.consumer_group("g"), again.consumer_group("g")
    for said in ("members", "targets", "epoch", "target_epoch"):
        assert getattr(twin, said) == getattr(group, said)
    assert twin.owners == {topic_id: owned for topic_id, owned in group.owners.items() if owned}
    await again.close()


async def _check_classic(coordinator: GroupCoordinator, log: MemoryLog, clock: ManualClock) -> None:
    """Another coordinator reads the same members, and nothing that is left of the other kind."""
    await some_turns(100)
    group = coordinator.classic_group("g")
    (said,) = [each for each in stored(log)[-1:] if each is not None]
    assert said.generation_id == group.generation_id
    again = await _another(log, clock)
    twin = again.classic_group("g")
    assert twin.generation_id == group.generation_id
    assert _protocols(twin) == _protocols(group)
    await again.close()


async def _another(log: MemoryLog, clock: ManualClock) -> GroupCoordinator:
    again = new_coordinator(log, SETTINGS, clock)
    again.start()
    lead_all(again, log)
    await loaded(again)
    return again


def _protocols(group: Group) -> dict[str, Any]:
    members = group.membership.members.values()
    return {each.member_id: (each.protocols, each.group_instance_id) for each in members}


def _batches(log: MemoryLog) -> int:
    return sum(map(len, log.batches.values()))


# -- to the consumer protocol ------------------------------------------------------------------


async def _nothing(*_: Any) -> None:
    pass


async def _one_leaves(coordinator: GroupCoordinator, clock: ManualClock, members: Members) -> None:
    leaving = [LeavingMember(members[3].member_id, None, "")]
    assert await coordinator.leave("g", leaving) == [ErrorCode.none]


async def _all_leave(coordinator: GroupCoordinator, clock: ManualClock, members: Members) -> None:
    leaving = [LeavingMember(each.member_id, None, "") for each in members[:-1]]
    leaving.append(LeavingMember("", "static", ""))
    assert set(await coordinator.leave("g", leaving)) == {ErrorCode.none}


@pytest.mark.parametrize(
    ("do", "count"), [(_nothing, MEMBERS), (_one_leaves, MEMBERS - 1), (_all_leave, 0)]
)
def test_a_group_becomes_a_consumer_group_by_one_batch(do: Do, count: int) -> None:
    async def run(coordinator: GroupCoordinator, log: MemoryLog, clock: ManualClock) -> None:
        members = await stable(coordinator, clock)
        await do(coordinator, clock, members)
        before = _batches(log)
        answer: HeartbeatAnswer = await upgrade(coordinator)
        assert answer.member_id == "m"
        assert _batches(log) == before + 1
        group = coordinator.consumer_group("g")
        assert (len(group.members), group.classic_count) == (count + 1, count)
        await _check_consumer(coordinator, log, clock)
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


def test_members_that_wait_join_again() -> None:
    async def run(coordinator: GroupCoordinator, log: MemoryLog, clock: ManualClock) -> None:
        members = await stable(coordinator, clock)
        joining = coordinator.join("g", request())
        await upgrade(coordinator)
        joined = await joining
        assert joined.error is ErrorCode.rebalance_in_progress
        again = await coordinator.join("g", request(joined.member_id))
        assert again.error is ErrorCode.none
        assert len(coordinator.consumer_group("g").members) == len(members) + 2
        await _check_consumer(coordinator, log, clock)

    with_coordinator(run, SETTINGS)


def test_what_cannot_be_written_leaves_the_classic_group_as_it_is() -> None:
    async def run(coordinator: GroupCoordinator, log: MemoryLog, clock: ManualClock) -> None:
        members = await stable(coordinator, clock)
        written = len(log.records())
        log.error = ErrorCode.not_enough_replicas
        with pytest.raises(KafkaError) as refusal:
            await upgrade(coordinator)
        assert refusal.value.code is ErrorCode.coordinator_not_available
        log.error = None
        assert len(log.records()) == written
        assert len(coordinator.classic_group("g").membership.members) == MEMBERS
        coordinator.heartbeat("g", members[0].member_id, None, members[0].generation_id)
        await upgrade(coordinator)
        await _check_consumer(coordinator, log, clock)

    with_coordinator(run, SETTINGS)


async def _check_too_large(coordinator: GroupCoordinator, log: MemoryLog) -> None:
    written = len(log.records())
    with pytest.raises(KafkaError) as refusal:
        await upgrade(coordinator)
    assert refusal.value.code is ErrorCode.unknown_server_error
    assert len(log.records()) == written


def test_what_is_more_than_a_batch_stays_a_classic_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in Apache Kafka."""

    async def run(coordinator: GroupCoordinator, log: MemoryLog, clock: ManualClock) -> None:
        members = await stable(coordinator, clock)
        monkeypatch.setattr(memory_log, "MESSAGE_BYTES_MAX", _SMALL_BYTES)
        await _check_too_large(coordinator, log)
        coordinator.heartbeat("g", members[0].member_id, None, members[0].generation_id)
        # To learn that takes long: it is tried again once the group has shrunk.
        monkeypatch.undo()
        await _check_too_large(coordinator, log)
        await _one_leaves(coordinator, clock, members)
        await upgrade(coordinator)
        await _check_consumer(coordinator, log, clock)

    with_coordinator(run, SETTINGS)


# -- back to the classic protocol --------------------------------------------------------------


async def _its_session_ends(coordinator: GroupCoordinator, clock: ManualClock) -> None:
    members = list(coordinator.consumer_group("g").members.values())
    clock.advance_ms(SESSION_MS - 1_000)
    for each in members:
        if each.is_classic:
            coordinator.consumer_group("g").extend_session(each)
    wake(coordinator)
    await converted(coordinator)


async def _it_leaves(coordinator: GroupCoordinator, _: ManualClock) -> None:
    await _leave(coordinator)


@pytest.mark.parametrize("go", [_it_leaves, _its_session_ends])
def test_a_group_becomes_a_classic_one_by_one_batch(go: Any) -> None:
    async def run(coordinator: GroupCoordinator, log: MemoryLog, clock: ManualClock) -> None:
        members = await _mixed(coordinator, clock)
        before = _batches(log)
        await go(coordinator, clock)
        assert _batches(log) == before + 1
        group = coordinator.classic_group("g")
        assert len(group.membership.members) == MEMBERS
        await _check_classic(coordinator, log, clock)
        with pytest.raises(KafkaError) as refusal:
            coordinator.heartbeat("g", members[0].member_id, None, group.generation_id)
        assert refusal.value.code is ErrorCode.rebalance_in_progress
        assert len(await settled(coordinator, clock, members)) == MEMBERS
        await _check_classic(coordinator, log, clock)

    with_coordinator(run, SETTINGS)


def test_members_that_do_not_join_the_classic_group_are_out() -> None:
    async def run(coordinator: GroupCoordinator, _: MemoryLog, clock: ManualClock) -> None:
        members = await _mixed(coordinator, clock)
        await _leave(coordinator)
        group = coordinator.classic_group("g")
        deadlines = [each for each, _ in coordinator.context.deadlines.items()]
        assert {each.kind for each in deadlines if each.member_id} == {DeadlineKind.SESSION}
        # A static member when its session is over.
        clock.advance_ms(REBALANCE_MS + 5_000)
        wake(coordinator)
        assert group.membership.members.keys() == {members[-1].member_id}
        clock.advance_ms(SESSION_MS)
        wake(coordinator)
        assert not group.membership.members

    with_coordinator(run, SETTINGS)


def test_what_members_support_is_not_forgotten() -> None:
    async def run(coordinator: GroupCoordinator, _: MemoryLog, clock: ManualClock) -> None:
        members = await _mixed(coordinator, clock)
        joining = request(members[0].member_id)
        protocols = (*joining.protocols, ("roundrobin", joining.protocols[0][1]))
        joined = await coordinator.join("g", replace(joining, protocols=protocols))
        assert joined.error is ErrorCode.none
        await _leave(coordinator)
        group = coordinator.classic_group("g")
        assert group.membership.members[members[0].member_id].protocols == protocols

    with_coordinator(run, SETTINGS)


async def _with_a_modern_static_member(
    coordinator: GroupCoordinator, clock: ManualClock
) -> Members:
    members = await stable(coordinator, clock)
    modern = HeartbeatRequest("m", 0, "c", "/h", "static", None, 30_000, frozenset(["t"]), owned={})
    await coordinator.consumer_heartbeat("g", modern)
    assert coordinator.consumer_group("g").classic_count == MEMBERS - 1
    return members


def test_a_static_member_comes_back_as_a_classic_one() -> None:
    async def run(coordinator: GroupCoordinator, log: MemoryLog, clock: ManualClock) -> None:
        members = await _with_a_modern_static_member(coordinator, clock)
        joined = await coordinator.join("g", request(instance_id="static"))
        assert joined.error is ErrorCode.none
        assert coordinator.classic_group("g").membership.members.keys() == {
            joined.member_id,
            *(each.member_id for each in members[:-1]),
        }
        await _check_classic(coordinator, log, clock)

    with_coordinator(run, SETTINGS)


def test_what_cannot_be_written_leaves_the_consumer_group_as_it_is() -> None:
    async def run(coordinator: GroupCoordinator, log: MemoryLog, clock: ManualClock) -> None:
        await _mixed(coordinator, clock)
        written = len(log.records())
        log.error = ErrorCode.not_enough_replicas
        with pytest.raises(KafkaError):
            await _leave(coordinator)
        log.error = None
        assert len(log.records()) == written
        assert len(coordinator.consumer_group("g").members) == MEMBERS + 1
        await _leave(coordinator)
        await _check_classic(coordinator, log, clock)

    with_coordinator(run, SETTINGS)


@pytest.mark.parametrize("go", [_it_leaves, _its_session_ends])
def test_what_is_more_than_a_batch_stays_a_consumer_group(
    go: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The member is out all the same: its partitions are for the others."""

    async def run(coordinator: GroupCoordinator, log: MemoryLog, clock: ManualClock) -> None:
        members = await _mixed(coordinator, clock)
        monkeypatch.setattr(memory_log, "MESSAGE_BYTES_MAX", _SMALL_BYTES)
        await go(coordinator, clock)
        group = coordinator.consumer_group("g")
        assert len(group.members) == group.classic_count == MEMBERS
        await _check_consumer(coordinator, log, clock)
        monkeypatch.undo()
        assert (await coordinator.join("g", request(members[0].member_id))).error is ErrorCode.none
        await _one_leaves(coordinator, clock, members)
        assert len(coordinator.classic_group("g").membership.members) == MEMBERS - 1
        await _check_classic(coordinator, log, clock)

    with_coordinator(run, SETTINGS)


def test_a_static_member_comes_back_into_a_group_of_more_than_a_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def run(coordinator: GroupCoordinator, log: MemoryLog, clock: ManualClock) -> None:
        await _with_a_modern_static_member(coordinator, clock)
        monkeypatch.setattr(memory_log, "MESSAGE_BYTES_MAX", _SMALL_BYTES)
        joined = await coordinator.join("g", request(instance_id="static"))
        assert joined.error is ErrorCode.none
        group = coordinator.consumer_group("g")
        assert len(group.members) == group.classic_count == MEMBERS
        assert joined.member_id in group.members
        await _check_consumer(coordinator, log, clock)

    with_coordinator(run, SETTINGS)


# -- a member after the other ------------------------------------------------------------------


async def _commit(coordinator: GroupCoordinator, members: Members) -> None:
    member = members[0]
    offsets = [position("t", TOPIC_ID, 0, 5)]
    commit = Commit("g", member.member_id, None, member.generation_id, None, offsets)
    assert await commit_offsets(coordinator, commit) == [ErrorCode.none]


def test_members_commit_before_and_after() -> None:
    async def run(coordinator: GroupCoordinator, _: MemoryLog, clock: ManualClock) -> None:
        members = await stable(coordinator, clock)
        await _commit(coordinator, members)
        await upgrade(coordinator)
        await _commit(coordinator, members)

    with_coordinator(run, SETTINGS)


def test_there_and_back_and_there_again() -> None:
    async def run(coordinator: GroupCoordinator, log: MemoryLog, clock: ManualClock) -> None:
        await _mixed(coordinator, clock)
        await _leave(coordinator)
        assert (await upgrade(coordinator, "n")).member_id == "n"
        assert len(coordinator.consumer_group("g").members) == MEMBERS + 1
        await _check_consumer(coordinator, log, clock)

    with_coordinator(run, SETTINGS)
