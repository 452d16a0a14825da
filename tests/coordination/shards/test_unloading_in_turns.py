"""Very many groups are coordinated elsewhere, or nowhere: others have their turn meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from coordination.groups.classic.classic_members import (
    REBALANCE_MS,
    request,
    single_step,
    some_turns,
)
from coordination.groups.consumer.test_conversions import SETTINGS, stable, upgrade
from coordination.groups.coordinator.test_group_coordinator import (
    commit,
    loaded,
    position,
    with_coordinator,
)
from coordination.groups.share.share_world import ShareWorld
from coordination.groups.share.share_world import run as run_with_shares
from coordination.memory_log import MemoryLog, lead_all
from coordination.transactions.test_coordinator import COUNT, TIMEOUT_MS, Cluster
from coordination.transactions.test_coordinator import run as run_with_transactions
from drumlin.clock import ManualClock
from drumlin.coordination.groups.coordinator.coordinator import GroupCoordinator
from drumlin.coordination.groups.every_kind.messages import JoinAnswer
from drumlin.coordination.transactions.coordinator import TransactionCoordinator
from drumlin.turns import forget
from drumlin.wire.error_codes import ErrorCode
from rig.data.committed_offsets import commit_offsets
from rig.time.stepped import Stepped
from rig.time.turn_lengths import single_steps

_GROUPS = 100
_MEMBERS = 3
_PER_TURN = 32


async def _resign(coordinator: GroupCoordinator) -> None:
    for partition in range(4):
        coordinator.resign(partition)


@pytest.mark.parametrize("end", [_resign, GroupCoordinator.close])
def test_those_who_wait_in_many_groups_are_told_in_several_turns(
    end: Callable[[GroupCoordinator], Awaitable[None]],
) -> None:
    async def run(coordinator: GroupCoordinator, _: MemoryLog, __: ManualClock) -> None:
        joining = [
            coordinator.join(f"group-{number}", request())
            for number in range(_GROUPS)
            for _ in range(_MEMBERS)
        ]
        await asyncio.sleep(0)
        ending = asyncio.ensure_future(end(coordinator))
        most = before = 0
        for _ in range(1_000):
            done = sum(each.done() for each in joining)
            most, before = max(most, done - before), done
            if done == len(joining):
                break
            await asyncio.sleep(0)
        assert before == len(joining)
        assert most <= _PER_TURN
        assert {(await each).error for each in joining} == {ErrorCode.not_coordinator}
        await ending

    with_coordinator(run)


def test_a_large_group_is_forgotten_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Turns are counted, as they pass, of a task that asks for nothing but turns."""

    async def run(coordinator: GroupCoordinator, _: MemoryLog, clock: ManualClock) -> None:
        await stable(coordinator, clock)
        await upgrade(coordinator)
        count = len(coordinator.consumer_group("g").members)
        single_steps(monkeypatch)
        ending = asyncio.ensure_future(coordinator.close())
        passed = 0
        while not ending.done():
            await asyncio.sleep(0)
            passed += 1
        assert passed > 2 * count  # its deadlines, and its members

    with_coordinator(run, SETTINGS)


def test_deadlines_of_before_do_not_count_when_it_is_loaded_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A member had not asked for its assignment; meanwhile it may have, of another coordinator."""

    async def run(coordinator: GroupCoordinator, log: MemoryLog, clock: ManualClock) -> None:
        await stable(coordinator, clock)
        await upgrade(coordinator)
        joined: JoinAnswer = await coordinator.join("g", request())
        assert joined.error is ErrorCode.none
        await some_turns(100)
        single_step(monkeypatch)
        await _resign(coordinator)
        lead_all(coordinator, log)
        await loaded(coordinator)
        group = coordinator.consumer_group("g")
        assert joined.member_id in group.members
        clock.advance_ms(2 * REBALANCE_MS)  # longer than it had to ask
        coordinator._alarm.wake()
        await some_turns(100)
        assert joined.member_id in group.members

    with_coordinator(run, SETTINGS)


def test_who_is_being_told_of_offsets_hears_of_all_of_them() -> None:
    async def run(coordinator: GroupCoordinator, _: MemoryLog, __: ManualClock) -> None:
        topics = [f"topic-{number}" for number in range(10)]
        await commit_offsets(coordinator, commit("g", *(position(topic=each) for each in topics)))
        telling = coordinator.committed_offsets("g", None)
        told = [next(telling)]
        await _resign(coordinator)
        await some_turns(100)
        told += telling
        assert [each.topic for each in told] == topics
        assert all(each.offsets == told[0].offsets for each in told)

    with_coordinator(run)


def test_what_is_large_is_forgotten_piece_by_piece() -> None:
    some, named = list(range(10)), dict.fromkeys(range(10))
    assert Stepped(forget(some, named)).count() == 20
    assert not (some or named)


def test_transactional_ids_are_forgotten_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(_: Cluster, coordinator: TransactionCoordinator) -> None:
        for number in range(_GROUPS):
            await coordinator.init_producer(f"id-{number}", TIMEOUT_MS, None)
        shards = [coordinator._partitions.shard(each) for each in range(COUNT)]
        assert sum(len(each.transactions) for each in shards) == _GROUPS
        single_step(monkeypatch)
        for partition in range(COUNT):
            coordinator.resign(partition)
        assert coordinator.transactions() == []
        most = await _most_in_a_turn(lambda: sum(len(each.transactions) for each in shards))
        assert 1 <= most <= COUNT

    run_with_transactions(test)


def test_share_states_are_forgotten_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(world: ShareWorld) -> None:
        world.state_log.partition_count = 1
        await world.restart()
        topic = world.topics.put("t", _GROUPS)
        for partition in range(_GROUPS):
            await world.states.initialize("g", topic.topic_id, partition, 1, 0)
        shard = world.states._partitions.shard(0)
        single_step(monkeypatch)
        world.states.resign(0)
        assert await _most_in_a_turn(lambda: len(shard.states)) == 1

    run_with_shares(test)


async def _most_in_a_turn(left: Callable[[], int]) -> int:
    """By how much it becomes less in one turn, at most, until it is nothing."""
    most, before = 0, left()
    assert before
    async with asyncio.timeout(20):
        while before:
            await asyncio.sleep(0)
            most, before = max(most, before - left()), left()
    return most
