"""The loop by which coordinators append: when others have their turn, and what counts by then."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from coordination.groups.coordinator.test_group_coordinator import committed, loaded
from coordination.memory_log import MESSAGE_BYTES_MAX, FullLog, lead_all, new_coordinator
from drumlin.coordination.groups.coordinator.coordinator import GroupCoordinator
from drumlin.coordination.groups.offsets.offset_records import CommittedOffset, OffsetKey
from drumlin.coordination.groups.shard.record_registry import encode_record
from drumlin.coordination.groups.shard.shard import GroupShard
from drumlin.coordination.shards.state_batches import pack
from drumlin.wire.error_codes import ErrorCode, KafkaError
from rig.time.stepped import Stepped

Batches = list[tuple[bytearray, str]]
Body = Callable[[GroupCoordinator, GroupShard, FullLog], Coroutine[Any, Any, None]]


def _batches(*names: str) -> Batches:
    """One batch for each, which says its name."""
    made = []
    for name in names:
        ((batch, _),) = pack([(OffsetKey("g", name, 0), None)], encode_record, 0)
        made.append((batch, name))
    return made


def _with_shard(body: Body) -> None:
    async def run() -> None:
        coordinator = new_coordinator(log := FullLog(1))
        coordinator.start()
        lead_all(coordinator, log)
        await loaded(coordinator)
        await body(coordinator, coordinator._partitions.shard(0), log)
        await coordinator.close()

    asyncio.run(run())


def test_what_is_written_at_once_is_taken_over_batch_by_batch() -> None:
    async def body(coordinator: GroupCoordinator, shard: GroupShard, log: FullLog) -> None:
        said: list[tuple[str, int]] = []

        def take_over(name: str, _: int) -> None:
            said.append((name, len(log.batches[0])))

        coordinator._writer.write_batches_at_once(shard, _batches("a", "b"), take_over)
        assert said == [("a", 1), ("b", 2)], "each is taken over before the next is appended"

    _with_shard(body)


def test_others_have_their_turn_before_each_check_and_not_after_it() -> None:
    async def body(coordinator: GroupCoordinator, shard: GroupShard, _: FullLog) -> None:
        steps: list[str] = []
        work = Stepped(
            coordinator._writer.write_batches(
                shard,
                _batches("a", "b"),
                lambda name: steps.append(f"check {name}"),
                lambda name, _: steps.append(f"take over {name}"),
            )
        )
        for _turn in work:
            steps.append("turn")
        assert steps == [
            *("turn", "check a", "take over a"),
            *("turn", "check b", "take over b"),
        ]

    _with_shard(body)


@pytest.mark.parametrize("counts", [True, False])
def test_what_comes_before_a_refusal_is_taken_over(counts: bool) -> None:
    async def body(coordinator: GroupCoordinator, shard: GroupShard, log: FullLog) -> None:
        taken: list[str] = []
        log.room, log.confirmations = 2, []
        work = Stepped(
            coordinator._writer.write_batches(
                shard,
                _batches("a", "b", "c", "d"),
                lambda _: None,
                lambda name, _: taken.append(name),
                is_part_enough=lambda _: counts,
            )
        )
        if counts:
            assert work.to_end() is log.confirmations[1], "of the last that is in the log"
        else:
            with pytest.raises(KafkaError) as refusal:
                work.to_end()
            assert refusal.value.code is ErrorCode.not_coordinator, "as clients are told"
        assert taken == ["a", "b"]

    _with_shard(body)


def test_of_records_that_take_effect_together_those_count_that_are_written() -> None:
    """As another coordinator would load them: the rest of the log may not be there for long."""

    async def body(coordinator: GroupCoordinator, shard: GroupShard, log: FullLog) -> None:
        log.room = 2
        long, count = "x" * 30_000, 3 * MESSAGE_BYTES_MAX // 30_000
        records = [
            (OffsetKey("g", "t", each), CommittedOffset(each, -1, long, 0)) for each in range(count)
        ]
        work = Stepped(
            coordinator._writer.write_in_turns(
                shard,
                records,
                lambda: ([], None),
                lambda _: pytest.fail("not all of it is written"),
            )
        )
        with pytest.raises(KafkaError):
            work.to_end()
        assert len(log.batches[0]) == 2
        again = new_coordinator(log)
        again.start()
        lead_all(again, log)
        await loaded(again)
        found = await committed(coordinator, "g")
        assert found == await committed(again, "g")
        assert 0 < len(found) < count
        await again.close()

    _with_shard(body)


def test_nothing_is_written_of_a_partition_that_was_lost_meanwhile() -> None:
    async def body(coordinator: GroupCoordinator, shard: GroupShard, log: FullLog) -> None:
        work = Stepped(
            coordinator._writer.write_batches(
                shard, _batches("a"), lambda _: None, lambda *_: pytest.fail("it is not in the log")
            )
        )
        next(work)
        coordinator.resign(0)
        coordinator.become_leader(0, 1)  # led again, but by another shard
        with pytest.raises(KafkaError) as refusal:
            work.to_end()
        assert refusal.value.code is ErrorCode.not_coordinator
        assert not log.batches

    _with_shard(body)
