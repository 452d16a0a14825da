"""Filters that became ranges: with them, the same rows as without."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
)

from drumlin.spark.options.offsets import TopicPartition
from drumlin.spark.planning.pushdown import take_filters
from rig.depth import so_many
from spark.topics import Topic, rows

NewTopic = Callable[[int], Topic]
SETTING = "spark.sql.python.filterPushdown.enabled"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

#: Three partitions of ten records, whose times are out of order and partly before the epoch.
RECORDS = [
    {"partition": partition, "offset": offset, "timestamp": (offset * 7 + partition) % 11 - 2}
    for partition, offset in itertools.product(range(3), range(10))
]

numbers = st.integers(-2, 12)
times = numbers.map(lambda ms: EPOCH + timedelta(milliseconds=ms))
comparisons = st.sampled_from(
    [EqualTo, EqualNullSafe, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual]
)
columns = st.sampled_from(["partition", "offset"])


def compared(names: st.SearchStrategy[str], values: st.SearchStrategy[Any]) -> Any:
    one = st.builds(lambda kind, name, value: kind((name,), value), comparisons, names, values)
    several = st.builds(
        lambda name, chosen: In((name,), tuple(chosen)), names, st.lists(values, min_size=1)
    )
    return one | several


filters = st.one_of(
    compared(columns, numbers),
    compared(st.just("timestamp"), times),
    st.builds(lambda name: IsNotNull((name,)), columns),
    st.builds(lambda name, value: Not(EqualTo((name,), value)), columns, numbers),
    st.just(StringContains(("topic",), "x")),
)


def passes(record: dict[str, int], each: Any) -> bool:
    """The dumb twin: what Spark would say of a record."""
    if isinstance(each, Not):
        return not passes(record, each.child)
    if isinstance(each, IsNotNull | StringContains):
        return True
    name = each.attribute[0]
    value: Any = record[name]
    if name == "timestamp":
        value = EPOCH + timedelta(milliseconds=value)
    if isinstance(each, In):
        return value in each.value
    return {
        EqualTo: value == each.value,
        EqualNullSafe: value == each.value,
        GreaterThan: value > each.value,
        GreaterThanOrEqual: value >= each.value,
        LessThan: value < each.value,
        LessThanOrEqual: value <= each.value,
    }[type(each)]


@settings(max_examples=so_many(150, 500))
@given(st.lists(filters, max_size=5))
def test_ranges_and_what_is_left_to_spark_are_the_filters(given_filters: list[Filter]) -> None:
    bounds, left = take_filters(given_filters)
    assert [each for each in given_filters if each in left] == left
    keys = [TopicPartition("t", partition) for partition in range(3)]
    since = {key: first_since(key.partition, bounds.since_ms) for key in keys}
    start, end = bounds.cut(dict.fromkeys(keys, 0), dict.fromkeys(keys, 10), since)
    read = [
        record
        for record in RECORDS
        for key in [TopicPartition("t", record["partition"])]
        if key in end and start[key] <= record["offset"] < end[key]
    ]
    found = [record for record in read if all(passes(record, each) for each in left)]
    assert found == [r for r in RECORDS if all(passes(r, each) for each in given_filters)]
    exact = [each for each in given_filters if isinstance(each, EqualTo)]
    for each in exact:
        assert (each in left) == (each.attribute[0] == "timestamp")


def first_since(partition: int, since_ms: int | None) -> int:
    young = [
        r for r in RECORDS if r["partition"] == partition and r["timestamp"] >= (since_ms or -9)
    ]
    return min((record["offset"] for record in young), default=-1)


def test_a_loss_stays_one() -> None:
    bounds, _ = take_filters([EqualTo(("partition",), 7)])
    key = TopicPartition("t", 0)
    assert bounds.cut({key: 9}, {key: 4}, {}) == ({key: 9}, {key: 4})


@pytest.fixture
def with_pushdown(spark: SparkSession) -> Iterator[SparkSession]:
    before = spark.conf.get(SETTING)
    spark.conf.set(SETTING, "true")
    yield spark
    spark.conf.set(SETTING, str(before))


@pytest.mark.deep
@pytest.mark.spark
def test_spark_finds_the_same_with_it(with_pushdown: SparkSession, new_topic: NewTopic) -> None:
    random = Random(7)
    topic = new_topic(3)
    first = 1_700_000_000_000
    topic.write(
        (number % 3, None, b"%d" % number, first + random.randrange(100), None)
        for number in range(300)
    )
    expected = topic.expected()
    reader = with_pushdown.read.format("drumlin").options(**topic.options())
    shared = reader.load()
    offset, partition, ms = random.randrange(100), random.randrange(3), random.randrange(100)
    time = f"timestamp_millis({first + ms})"
    conditions: dict[str, Callable[[Any], bool]] = {
        f"offset >= {offset} and partition = {partition}": (
            lambda row: row[1] >= offset and row[0] == partition
        ),
        f"partition in (0, 2) and offset < {offset}": (
            lambda row: row[0] in (0, 2) and row[1] < offset
        ),
        f"timestamp >= {time} and offset > 20": lambda row: row[4] >= first + ms and row[1] > 20,
        f"timestamp < {time} or partition = 1": lambda row: row[4] < first + ms or row[0] == 1,
        f"timestamp > timestamp_millis({first + 1000})": lambda row: False,
        f"offset in (3, 4, 90) and timestamp = {time}": (
            lambda row: row[1] in (3, 4, 90) and row[4] == first + ms
        ),
    }
    for condition, wanted in conditions.items():
        left = [row for row in expected if wanted(row)]
        pushed = reader.option("pushFilters", "true").load()
        assert rows(pushed.where(condition)) == left, condition
        assert rows(shared.where(condition)) == left, f"without the option: {condition}"
    assert rows(shared) == expected
    pushed = reader.option("pushFilters", "true").load()
    one: Any = pushed.where("partition = 1 and offset between 10 and 19").select("value")
    plan = one._jdf.queryExecution().executedPlan().toString()
    assert "Filter (" not in plan, "what is exact is not asked of Spark again"
    assert one.count() == 10
