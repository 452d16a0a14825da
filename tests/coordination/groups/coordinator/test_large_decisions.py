"""What is more than most batches: one batch if the topic takes it, and otherwise all or nothing.

And what takes longer than a turn of the loop.
"""

from __future__ import annotations

import asyncio

import pytest

from coordination.groups.coordinator.test_group_coordinator import (
    DAY_MS,
    commit,
    committed,
    join,
    position,
    with_coordinator,
)
from coordination.memory_log import MESSAGE_BYTES_MAX, MemoryLog
from coordination.settings import Settings
from drumlin.clock import ManualClock
from drumlin.coordination.groups.coordinator.coordinator import GroupCoordinator
from drumlin.coordination.shards.state_partitions import partition_for
from drumlin.wire.error_codes import ErrorCode, KafkaError
from rig.data.committed_offsets import commit_offsets
from rig.time.stepped import Stepped

LARGE = Settings(offset_metadata_max_bytes=2 * MESSAGE_BYTES_MAX)


@pytest.mark.parametrize("codec", range(5))
def test_what_the_topic_takes_is_one_batch(codec: int) -> None:
    """No kill, and no full device, leaves half of what was decided."""

    async def run(coordinator: GroupCoordinator, log: MemoryLog, _: ManualClock) -> None:
        many = [position(n, "m" * 4_000, n) for n in range(250)]
        await commit_offsets(coordinator, commit("g", *many))
        assert len(log.batches[partition_for("g", 4)]) == 1
        assert len(await committed(coordinator, "g")) == 250

    with_coordinator(run, Settings(offsets_topic_compression_codec=codec))


def test_records_without_much_in_them_fit_as_well() -> None:
    async def run(coordinator: GroupCoordinator, log: MemoryLog, _: ManualClock) -> None:
        await commit_offsets(coordinator, commit("g", *[position(n, "", n) for n in range(30_000)]))
        batches = log.batches[partition_for("g", 4)]
        assert len(batches) > 1
        assert max(map(len, batches)) <= MESSAGE_BYTES_MAX
        assert len(await committed(coordinator, "g")) == 30_000

    with_coordinator(run)


def test_what_is_too_much_for_one_batch_goes_into_several() -> None:
    async def run(coordinator: GroupCoordinator, log: MemoryLog, _: ManualClock) -> None:
        many = [position(n, "m" * 4_000, n) for n in range(400)]
        await commit_offsets(coordinator, commit("g", *many))
        assert len(log.batches[partition_for("g", 4)]) == 2
        assert len(await committed(coordinator, "g")) == 400

    with_coordinator(run)


def test_a_record_that_is_too_large_keeps_the_others_out() -> None:
    async def run(coordinator: GroupCoordinator, log: MemoryLog, _: ManualClock) -> None:
        sizes = [700_000, 700_000, MESSAGE_BYTES_MAX]
        some = [position(n, "m" * size, n) for n, size in enumerate(sizes)]
        with pytest.raises(KafkaError):
            await commit_offsets(coordinator, commit("g", *some))
        await asyncio.sleep(0)
        assert not log.batches.get(partition_for("g", 4))
        assert await committed(coordinator, "g") == {}

    with_coordinator(run, LARGE)


def test_offsets_of_a_large_group_expire_in_turns() -> None:
    """Others have theirs in between, and what is committed meanwhile stays."""

    async def run(coordinator: GroupCoordinator, log: MemoryLog, clock: ManualClock) -> None:
        many = [position(1, partition=number) for number in range(5_000)]
        await commit_offsets(coordinator, commit("g", *many))
        clock.advance_ms(8 * DAY_MS)
        turns = 0

        async def count_turns() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1
                if turns == 1:
                    await commit_offsets(coordinator, commit("g", position(7, partition=4_999)))

        other = asyncio.create_task(count_turns())
        await coordinator.expire_offsets()
        other.cancel()
        assert turns > 3
        assert await committed(coordinator, "g") == {("t", 4_999): 7}
        clock.advance_ms(8 * DAY_MS)
        await coordinator.expire_offsets()
        with pytest.raises(KafkaError):
            coordinator.group("g")

    with_coordinator(run)


def test_a_group_of_very_many_offsets_is_deleted_in_turns() -> None:
    """What is committed meanwhile goes with it: no client has been told yet that it is gone."""

    async def run(coordinator: GroupCoordinator, log: MemoryLog, _: ManualClock) -> None:
        await commit_offsets(coordinator, commit("g", *[position(1, "", n) for n in range(30_000)]))
        deleting, steps = Stepped(coordinator.delete("g")), 0
        for _ in deleting:
            steps += 1
            if steps % 10 == 1:
                more = [position(2, partition=n) for n in range(30_000, 30_000 + 250)]
                await commit_offsets(coordinator, commit("g", position(2), *more))
        assert steps > 30
        with pytest.raises(KafkaError):
            coordinator.group("g")
        assert await committed(coordinator, "g") == {}
        left = {record.key: record.value for record in log.records()}
        assert not any(left.values())

    with_coordinator(run)


def test_a_group_that_somebody_joins_while_it_is_deleted_stays() -> None:
    async def run(coordinator: GroupCoordinator, _: MemoryLog, clock: ManualClock) -> None:
        await commit_offsets(coordinator, commit("g", *[position(1, "", n) for n in range(5_000)]))
        deleting = Stepped(coordinator.delete("g"))
        next(deleting)
        await join(coordinator, clock, "g")
        with pytest.raises(KafkaError) as refusal:
            deleting.to_end()
        assert refusal.value.code is ErrorCode.non_empty_group
        assert len(await committed(coordinator, "g")) == 5_000

    with_coordinator(run)


def test_very_many_offsets_are_deleted_in_turns_and_as_a_whole() -> None:
    async def run(coordinator: GroupCoordinator, log: MemoryLog, _: ManualClock) -> None:
        await commit_offsets(coordinator, commit("g", *[position(1, "", n) for n in range(5_000)]))
        written = len(log.batches[partition_for("g", 4)])
        asked = [("t", n) for n in range(0, 6_000, 2)]
        deleting = Stepped(coordinator.delete_offsets("g", asked))
        for _ in range(100):
            next(deleting)
        assert await deleting.to_end() == [ErrorCode.none] * 3_000
        assert len(log.batches[partition_for("g", 4)]) == written + 1
        assert set(await committed(coordinator, "g")) == {("t", n) for n in range(1, 5_000, 2)}

    with_coordinator(run)
