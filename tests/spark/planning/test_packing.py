"""Ranges that share a task, and batches of a size of their own: pure, without Spark or a broker."""

from __future__ import annotations

import itertools

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from drumlin.spark.options.ranges import PlannedRange
from drumlin.spark.planning.packed_ranges import PACKED_BYTES, PACKED_RANGES, pack_ranges
from drumlin.spark.reading.batch_sizes import of_good_size

derandomised = settings()
sizes = st.lists(st.none() | st.integers(0, 2 * PACKED_BYTES), max_size=100)


def ranges_of(sizes_bytes: list[int | None]) -> list[PlannedRange]:
    return [
        PlannedRange("t", index, 0, 1, size_bytes=size) for index, size in enumerate(sizes_bytes)
    ]


@derandomised
@given(sizes)
def test_packs_stay_in_bounds_and_lose_nothing(sizes_bytes: list[int | None]) -> None:
    ranges = ranges_of(sizes_bytes)
    tasks = pack_ranges(ranges)
    read = [each for task in tasks for each in task]
    assert sorted(read, key=lambda each: each.partition) == ranges
    for task in tasks:
        assert 1 <= len(task) <= PACKED_RANGES
        if len(task) > 1:
            assert sum(each.size_bytes or 0 for each in task) <= PACKED_BYTES
            assert all(each.size_bytes is not None for each in task)


def test_many_small_ranges_share_tasks_of_about_the_same_size() -> None:
    assert [len(task) for task in pack_ranges(ranges_of([100] * 64))] == [32, 32]
    assert [len(task) for task in pack_ranges(ranges_of([100] * 33))] == [17, 16]


def test_where_there_is_much_many_tasks_read_it() -> None:
    assert len(pack_ranges(ranges_of([1 << 20] * 64))) == 16
    assert len(pack_ranges(ranges_of([PACKED_BYTES] * 64))) == 64


@derandomised
@given(st.lists(st.integers(1, 50), max_size=30), st.integers(1, 400))
def test_batches_of_a_good_size_hold_the_same_rows(rows: list[int], target_bytes: int) -> None:
    numbers = itertools.count()
    batches = [
        pa.RecordBatch.from_pydict({"n": list(itertools.islice(numbers, count))}) for count in rows
    ]
    result = list(of_good_size(batches, target_bytes))
    assert [n for batch in result for n in batch.column("n").to_pylist()] == list(range(sum(rows)))
    for batch in result:
        assert batch.num_rows >= 1
        assert batch.num_rows == 1 or batch.nbytes <= 2 * target_bytes
    small = [batch.nbytes < target_bytes // 4 for batch in result]
    assert not any(one and other for one, other in itertools.pairwise(small))
