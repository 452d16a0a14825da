"""Tasks by bytes, of logs whose records are of very different sizes, against the logs."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Collection

from hypothesis import given, settings
from hypothesis import strategies as st

from drumlin.client.read.log_samples import LogPlace, LogSample
from drumlin.spark.options.offsets import TopicPartition
from drumlin.spark.options.ranges import PlannedRange
from drumlin.spark.planning.density import TASK_BYTES, Density, limit_bytes, split_by_bytes
from drumlin.spark.planning.log_densities import LogDensities
from drumlin.spark.planning.packed_ranges import pack_ranges
from drumlin.spark.planning.steady_topics import SteadyTopics

KEY = TopicPartition("t", 0)
MIB = 1 << 20

derandomised = settings()
samples = st.dictionaries(st.integers(0, 1000), st.floats(0.5, 2e6), min_size=1, max_size=8)


class LogInMemory:
    """A log of stretches, each of so many records of one size; counts who looks at it."""

    def __init__(self, *stretches: tuple[int, int]) -> None:
        self._starts = list(itertools.accumulate((count for count, _ in stretches), initial=0))
        self._sizes = [size for _, size in stretches]
        self.end_offset = self._starts[-1]
        self.looks = 0

    def look(self, places: Collection[LogPlace]) -> dict[LogPlace, LogSample]:
        self.looks += len(places)
        return {
            each: LogSample(each.offset, each.offset + 1, self._at(each.offset)) for each in places
        }

    def bytes_in(self, each: PlannedRange) -> int:
        return sum(
            size * max(0, min(end, each.end_offset) - max(start, each.start_offset))
            for (start, end), size in zip(
                itertools.pairwise(self._starts), self._sizes, strict=True
            )
        )

    def _at(self, offset: int) -> int:
        return self._sizes[bisect.bisect_right(self._starts, offset) - 1]

    def whole(self) -> PlannedRange:
        return PlannedRange(*KEY, 0, self.end_offset)

    def tasks(self) -> list[PlannedRange]:
        return split_by_bytes(
            [self.whole()], LogDensities(self.look, lambda keys: {}).of([self.whole()])
        )


def check(log: LogInMemory, tasks_max: int) -> None:
    tasks = log.tasks()
    assert (tasks[0].start_offset, tasks[-1].end_offset) == (0, log.end_offset)
    for one, other in itertools.pairwise(tasks):
        assert one.end_offset == other.start_offset
    assert max(map(log.bytes_in, tasks)) <= 256 * MIB
    assert len(tasks) <= tasks_max
    assert log.looks <= 130


def test_a_plan_of_many_large_logs_looks_at_each_a_few_times() -> None:
    """Each look is a cold read of a broker, and all ranges are looked at for one plan."""
    log = LogInMemory((80_000_000, 100))
    for count, looks in ((1, 130), (100, 4096), (2000, 8000)):
        log.looks = 0
        ranges = [PlannedRange("t", each, 0, log.end_offset) for each in range(count)]
        densities = LogDensities(log.look, lambda keys: {}).of(ranges)
        assert len(densities) == count
        assert log.looks <= looks


def test_a_log_of_equal_records() -> None:
    check(LogInMemory((80_000_000, 100)), 62)
    log = LogInMemory((1000, 100))
    assert [each.size_bytes for each in log.tasks()] == [100_000]
    assert log.looks == 2


def test_few_and_large_records_are_split_too() -> None:
    check(LogInMemory((10_000, MIB)), 90)


def test_large_records_behind_many_small_ones() -> None:
    check(LogInMemory((10_000_000, 100), (10_000, MIB)), 140)
    check(LogInMemory((10_000, MIB), (10_000_000, 100)), 140)


def test_a_compacted_head_is_less_dense() -> None:
    check(LogInMemory((30_000_000, 10), (30_000_000, 100)), 40)


def test_what_is_known_is_not_looked_at_again() -> None:
    log = LogInMemory((20_000_000, 100))
    densities = LogDensities(log.look, lambda keys: dict.fromkeys(keys, 77.0))
    whole = [log.whole()]
    found = densities.of(whole)
    looks = log.looks
    assert densities.of(whole) == found
    assert log.looks == looks
    few = [PlannedRange(*KEY, 5, 200)]
    assert densities.of(few)[KEY].size_bytes(5, 200) == log.bytes_in(few[0])
    looks = log.looks
    assert densities.of(few)[KEY].size_bytes(5, 200) == log.bytes_in(few[0])
    assert log.looks == looks


def test_few_records_may_be_large_ones() -> None:
    """The mean of a log tells nothing of those at its end."""
    log = LogInMemory((1_000_000, 100), (200, 8 * MIB))
    densities = LogDensities(log.look, lambda keys: dict.fromkeys(keys, 100.0))
    last = [PlannedRange("t", number, 1_000_000, log.end_offset) for number in range(3)]
    tasks = pack_ranges(split_by_bytes(last, densities.of(last)))
    assert max(sum(map(log.bytes_in, task)) for task in tasks) <= 256 * MIB
    assert log.looks <= 3 * 40
    usual = [PlannedRange("t", number, 500, 700) for number in range(32)]
    assert len(pack_ranges(split_by_bytes(usual, densities.of(usual)))) == 1


def test_a_stream_looks_once_at_what_came_in() -> None:
    log = LogInMemory((10_000, 100), (1_000, 100_000))
    densities = LogDensities(log.look, lambda keys: dict.fromkeys(keys, 77.0))
    for start in range(0, 11_000, 1_000):
        looks = log.looks
        batch = PlannedRange(*KEY, start, start + 1_000)
        known = densities.of([batch])[KEY]
        assert known.size_bytes(start, batch.end_offset) >= log.bytes_in(batch)
        assert log.looks - looks <= (2 if start in (0, 10_000) else 1)


def test_small_batches_that_are_alike_are_not_looked_at_each_time() -> None:
    """Neither those of one partition nor those of many with a few records each."""
    for partitions in (1, 64):
        log = LogInMemory((1_000_000, 100))
        densities = LogDensities(log.look, lambda keys: dict.fromkeys(keys, 77.0))
        size = 1_000 // partitions
        for start in range(0, 40 * size, size):
            if start == 8 * size:
                log.looks = 0
            ranges = [PlannedRange("t", each, start, start + size) for each in range(partitions)]
            known = densities.about(ranges)
            assert all(
                each.size_bytes(start, start + size) == size * 100 for each in known.values()
            )
        assert log.looks == 0, partitions


def test_what_has_been_alike_is_looked_at_now_and_then() -> None:
    now = [0.0]
    steady = SteadyTopics(lambda: now[0])
    few, many = PlannedRange(*KEY, 0, 1_000), PlannedRange(*KEY, 0, 1_000_000)
    for density in (100.0, 130.0, 90.0):
        steady.looked({"t": density})
        assert steady.small([few]) == {}
    steady.looked({"t": 120.0})
    assert steady.small([few, many, PlannedRange("u", 0, 0, 10)]) == {few: 130.0}
    now[0] = 9.9
    assert steady.small([few]) == {few: 130.0}
    now[0] = 10.0
    assert steady.small([few]) == {}
    steady.looked({"t": 100.0})
    assert steady.small([few]) == {few: 130.0}
    steady.looked({"t": 1_000.0})
    assert steady.small([few]) == {}


def test_where_bytes_are_limited_each_batch_is_looked_at() -> None:
    log = LogInMemory((40_000, 100), (1_000, 10_000))
    densities = LogDensities(log.look, lambda keys: dict.fromkeys(keys, 77.0))
    for start in range(0, 40_000, 1_000):
        densities.of([PlannedRange(*KEY, start, start + 1_000)])
    last = PlannedRange(*KEY, 40_000, 41_000)
    assert densities.of([last])[KEY].size_bytes(40_000, 41_000) >= log.bytes_in(last)


def test_an_end_that_cannot_be_makes_no_endless_plan() -> None:
    whole = PlannedRange(*KEY, 0, 2**63 - 1)
    for densities in ({}, {KEY: Density.mean(2.0**62)}):
        pieces = split_by_bytes([whole], densities)
        assert len(pieces) == 1 << 16
        assert (pieces[0].start_offset, pieces[-1].end_offset) == (0, whole.end_offset)
        assert all(a.end_offset == b.start_offset for a, b in itertools.pairwise(pieces))


def test_what_nobody_can_tell_has_no_size() -> None:
    densities = LogDensities(lambda places: {}, lambda keys: {}).of([PlannedRange(*KEY, 0, 1000)])
    assert densities == {}
    pieces = split_by_bytes([PlannedRange(*KEY, 0, 3_000_000)], densities)
    assert [each.size_bytes for each in pieces] == [None] * 3
    assert sum(each.size for each in pieces) == 3_000_000


@derandomised
@given(samples, st.integers(0, 1200), st.integers(1, 300), st.integers(1, TASK_BYTES))
def test_parts_are_the_whole(
    found: dict[int, float], start: int, size: int, part_bytes: int
) -> None:
    density = Density.of(found.items())
    whole = PlannedRange(*KEY, start, start + size)
    parts = density.split(whole, part_bytes)
    borders = [parts[0].start_offset, *(each.end_offset for each in parts)]
    assert borders == sorted(set(borders))
    assert [each.start_offset for each in parts] == borders[:-1]
    assert (borders[0], borders[-1]) == (start, start + size)
    largest = max(found.values())
    for each in parts:
        assert density.size_bytes(each.start_offset, each.end_offset) <= part_bytes + 2 * largest


@derandomised
@given(samples, st.lists(st.integers(0, 1000), min_size=1, max_size=5), st.integers(1, 10**8))
def test_limited_bytes_stay_in_bounds_and_starve_nobody(
    found: dict[int, float], sizes: list[int], limit: int
) -> None:
    density = Density.of(found.items())
    start = {TopicPartition("t", number): 3 for number in range(len(sizes))}
    end = {TopicPartition("t", number): 3 + size for number, size in enumerate(sizes)}
    limited = limit_bytes(start, end, limit, dict.fromkeys(start, density))
    for key, offset in limited.items():
        assert start[key] <= offset <= end[key]
        assert offset > start[key] or end[key] == start[key]
    taken = sum(density.size_bytes(3, offset) for offset in limited.values() if offset > 3)
    assert taken <= limit * 1.001 + len(sizes) * max(found.values())
