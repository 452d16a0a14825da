"""Commits that others come between: what is true by then counts, not what was true before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from uuid import UUID

import pytest

from coordination.groups.coordinator.test_group_coordinator import (
    committed,
    join,
    loaded,
    with_coordinator,
)
from coordination.memory_log import TOPIC_ID, MemoryLog
from drumlin.clock import ManualClock
from drumlin.coordination.groups.coordinator.coordinator import GroupCoordinator
from drumlin.coordination.groups.every_kind.committer import Committer
from drumlin.coordination.groups.every_kind.messages import LeavingMember
from drumlin.coordination.groups.offsets.commit import Commit
from drumlin.coordination.groups.shard.shard import GroupShard
from drumlin.coordination.shards.pending_answer import Written
from drumlin.coordination.shards.state_batches import Producer
from drumlin.coordination.shards.state_partitions import partition_for
from drumlin.storage.producers.verification import NOT_REQUIRED
from drumlin.turns import to_end
from drumlin.wire.by_hand.commit_request import TopicOffsets
from drumlin.wire.error_codes import ErrorCode, KafkaError
from rig.time.stepped import Stepped

_MANY = 17_000  # more than a batch


def of_topic(topic: str, count: int) -> TopicOffsets:
    topic_id = TOPIC_ID if topic == "t" else UUID(int=8)
    return TopicOffsets(topic, topic_id, list(range(count)), [5] * count, [-1] * count)


CASES = [
    pytest.param((of_topic("t", 1),), id="one position"),
    pytest.param((of_topic("t", 1), of_topic("u", 1)), id="two topics"),
    pytest.param((of_topic("t", 2_500),), id="many partitions"),
    pytest.param((of_topic("t", _MANY),), id="two batches"),
]


def advanced(work: Stepped[Written[list[ErrorCode]]], steps: int) -> bool:
    """Whether there is more to do after so many steps."""
    try:
        for _ in range(steps):
            next(work)
    except StopIteration:
        return False
    return True


def is_refused(work: Stepped[Written[list[ErrorCode]]]) -> bool:
    """Whether the client is told that not all of it is committed."""
    try:
        codes = work.to_end().result()
    except KafkaError:
        return True
    return codes[-1] is not ErrorCode.none


@pytest.mark.parametrize("positions", CASES)
def test_a_member_that_has_left_commits_nothing_more(positions: Sequence[TopicOffsets]) -> None:
    async def run(coordinator: GroupCoordinator, log: MemoryLog, clock: ManualClock) -> None:
        for steps in range(1_000):
            group_id = f"g{steps}"
            member = await join(coordinator, clock, group_id)
            commit = Commit(group_id, member.member_id, None, 1, None, positions)
            work = Stepped(coordinator.commit(commit))
            if not advanced(work, steps):
                assert len(await committed(coordinator, group_id)) == total
                return
            coordinator.leave(group_id, [LeavingMember(member.member_id, None)])
            before = await committed(coordinator, group_id)
            assert is_refused(work)
            assert await committed(coordinator, group_id) == before

    total = sum(len(each.partitions) for each in positions)
    with_coordinator(run)


@pytest.mark.parametrize("positions", CASES)
def test_nothing_is_written_past_a_coordinator_that_comes_after(
    positions: Sequence[TopicOffsets],
) -> None:
    """It has read the log by then, and would not know of it. What has not begun goes to it."""

    async def run(coordinator: GroupCoordinator, log: MemoryLog, _: ManualClock) -> None:
        for steps in range(1, 1_000):
            group_id = f"g{steps}"
            partition = partition_for(group_id, 4)
            work = Stepped(coordinator.commit(Commit(group_id, "", None, -1, None, positions)))
            if not advanced(work, steps):
                return
            coordinator.resign(partition)
            coordinator.become_leader(partition, steps + 1)
            await loaded(coordinator)
            before = len(log.batches.get(partition, ()))
            assert is_refused(work)
            assert len(log.batches.get(partition, ())) == before

    with_coordinator(run)


def test_each_position_is_checked_twice_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many batches there are."""
    checked = 0

    def check(topic_id: UUID | None, partition: int) -> ErrorCode:
        nonlocal checked
        checked += 1
        return ErrorCode.none

    def admit_commit(
        shard: GroupShard, group_id: str, committer: Committer
    ) -> Callable[[UUID | None, int], ErrorCode]:
        return check

    async def run(coordinator: GroupCoordinator, _: MemoryLog, __: ManualClock) -> None:
        commit = Commit("g", "", None, -1, None, (of_topic("t", _MANY),))
        to_end(coordinator.commit(commit))
        assert checked == 2 * _MANY

    monkeypatch.setattr(GroupShard, "admit_commit", admit_commit)
    with_coordinator(run)


def _until_the_first_batch_is_written(
    work: Stepped[Written[list[ErrorCode]]], log: MemoryLog, partition: int
) -> None:
    before = len(log.batches.get(partition, ()))
    while len(log.batches.get(partition, ())) == before:
        next(work)


def test_a_client_is_told_what_is_committed_of_several_batches() -> None:
    """The device becomes full between them."""

    async def run(coordinator: GroupCoordinator, log: MemoryLog, _: ManualClock) -> None:
        positions = (of_topic("t", _MANY), of_topic("u", 10))
        work = Stepped(coordinator.commit(Commit("g", "", None, -1, None, positions)))
        _until_the_first_batch_is_written(work, log, partition_for("g", 4))
        log.error = ErrorCode.kafka_storage_error
        codes = work.to_end().result()
        count = codes.count(ErrorCode.none)
        assert 0 < count < _MANY
        assert set(codes[:count]) == {ErrorCode.none}
        assert set(codes[count:]) == {ErrorCode.not_coordinator}
        assert len(codes) == _MANY + 10
        held = await committed(coordinator, "g")
        assert sorted(partition for _, partition in held) == list(range(count))

    with_coordinator(run)


@pytest.mark.parametrize("is_committed", [True, False])
def test_of_several_batches_of_a_transaction_all_count_or_none(is_committed: bool) -> None:
    """The client was told that it failed: it sends all of them again, or aborts."""

    async def run(coordinator: GroupCoordinator, log: MemoryLog, _: ManualClock) -> None:
        partition = partition_for("g", 4)
        positions = (of_topic("t", _MANY),)
        commit = Commit("g", "", None, -1, None, positions, producer=Producer(7, 0))
        work = Stepped(coordinator.commit_in_transaction(commit, NOT_REQUIRED))
        _until_the_first_batch_is_written(work, log, partition)
        log.error = ErrorCode.kafka_storage_error
        with pytest.raises(KafkaError):
            work.to_end()
        log.error = None
        assert not await committed(coordinator, "g")
        if is_committed:
            codes = await to_end(coordinator.commit_in_transaction(commit, NOT_REQUIRED))
            assert set(codes) == {ErrorCode.none}
        coordinator.end_transaction(partition, 7, is_committed)
        assert len(await committed(coordinator, "g")) == (_MANY if is_committed else 0)

    with_coordinator(run)
