"""Ranges, limits and offsets as JSON: pure values, without Spark or a broker."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from drumlin.spark.options.offsets import TopicPartition, from_json, parse_offsets, to_json
from drumlin.spark.options.ranges import (
    PlannedRange,
    SplitRule,
    limit_rows,
    rows_between,
    split_by_rule,
)

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)

derandomised = settings()
sizes = st.lists(st.integers(0, 10_000), min_size=1, max_size=6)
keys = st.builds(TopicPartition, st.sampled_from(["a", "b", "c.d"]), st.integers(0, 20))


def ranges_of(lengths: list[int]) -> list[PlannedRange]:
    return [PlannedRange("a", index, 5, 5 + size) for index, size in enumerate(lengths)]


def offsets_in(ranges: list[PlannedRange]) -> list[tuple[int, int]]:
    return [
        (each.partition, offset)
        for each in ranges
        for offset in range(each.start_offset, each.end_offset)
    ]


@derandomised
@given(sizes, st.integers(1, 40))
def test_min_partitions_loses_and_doubles_no_offset(lengths: list[int], wanted: int) -> None:
    ranges = ranges_of(lengths)
    tasks = split_by_rule(ranges, SplitRule(min_partitions=wanted))
    assert offsets_in(tasks) == offsets_in(ranges)
    filled = [size for size in lengths if size]
    assert len(tasks) >= min(wanted, sum(filled))
    assert len(tasks) <= max(wanted, len(filled))


@derandomised
@given(sizes, st.integers(1, 5_000))
def test_max_records_is_never_passed(lengths: list[int], limit: int) -> None:
    ranges = ranges_of(lengths)
    tasks = split_by_rule(ranges, SplitRule(max_records=limit))
    assert offsets_in(tasks) == offsets_in(ranges)
    assert all(task.size <= limit for task in tasks)


def test_the_largest_range_is_split_first() -> None:
    tasks = split_by_rule(ranges_of([10, 1000]), SplitRule(min_partitions=3))
    assert [(task.partition, task.size) for task in tasks] == [(0, 10), (1, 500), (1, 500)]


@derandomised
@given(
    st.dictionaries(keys, st.tuples(st.integers(0, 100), st.integers(0, 10_000)), min_size=1),
    st.integers(1, 5_000),
)
def test_limited_rows_stay_in_bounds_and_starve_nobody(
    logs: dict[TopicPartition, tuple[int, int]], limit: int
) -> None:
    start = {key: first for key, (first, _) in logs.items()}
    end = {key: first + size for key, (first, size) in logs.items()}
    limited = limit_rows(start, end, limit)
    assert limited.keys() == end.keys()
    for key, offset in limited.items():
        assert start[key] <= offset <= end[key]
        assert offset > start[key] or end[key] == start[key]
    assert rows_between(start, limited) <= limit + len(logs)


def test_without_need_nothing_is_limited() -> None:
    start, end = {A0: 0, A1: 5}, {A0: 10, A1: 5}
    assert limit_rows(start, end, 10) == end


@derandomised
@given(st.dictionaries(keys, st.integers(0, 2**62)))
def test_offsets_survive_the_checkpoint(offsets: dict[TopicPartition, int]) -> None:
    assert from_json(json.loads(json.dumps(to_json(offsets)))) == offsets


def test_offsets_look_like_those_of_sparks_kafka_source() -> None:
    text = json.dumps(to_json({B0: 3, A1: 2, A0: 1}), separators=(",", ":"))
    assert text == '{"a":{"0":1,"1":2},"b":{"0":3}}'
    assert parse_offsets(text).value == {A0: 1, A1: 2, B0: 3}
