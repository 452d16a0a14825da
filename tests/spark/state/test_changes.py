"""What happened between two moments, against a dict that is played forward."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from drumlin import Milliseconds
from drumlin.spark import changes
from drumlin.spark.options.option_values import OptionError
from drumlin.spark.planning.data_loss import DataLoss
from spark.state.history import History
from spark.state.test_snapshot import TINY, between
from spark.topics import Topic

pytestmark = pytest.mark.spark

Change = tuple[int, int, str, bytes, bytes | None, bytes | None, int]


def of(spark: SparkSession, history: History, since: Any, until: Any, **more: Any) -> DataFrame:
    topic = history.topic
    return changes(spark, topic.name, since, until, bootstrap=topic.address, **more)


def listed(frame: DataFrame) -> list[Change]:
    """The changes by partition and offset."""
    rows = frame.selectExpr("*", "unix_millis(timestamp) AS time_ms").collect()
    return sorted(
        (
            row.partition,
            row.offset,
            row.operation,
            bytes(row.key),
            None if row.before is None else bytes(row.before),
            None if row.after is None else bytes(row.after),
            row.time_ms,
        )
        for row in rows
    )


def wanted(history: History, since: dict[int, int], until: dict[int, int]) -> list[Change]:
    state = history.state(since)
    found: list[Change] = []
    for each in history.between(since, until):
        assert each.key is not None
        before = state.pop((each.partition, each.key), None)
        if each.value is not None:
            state[each.partition, each.key] = each.value
        if before is not None or each.value is not None:
            operation = "delete" if each.value is None else "update" if before else "insert"
            place = (each.partition, each.offset, operation, each.key)
            found.append((*place, before, each.value, each.timestamp_ms))
    assert {each[2] for each in found} == {"insert", "update", "delete"}
    return sorted(found)


@pytest.mark.deep
def test_between_two_moments(spark: SparkSession, history: History) -> None:
    since, until = between(history, 0.1), between(history, 0.8)
    expected = wanted(history, since, until)
    frame = of(spark, history, since, until)
    wanted_columns = ["operation", "key", "before", "after", "partition", "offset", "timestamp"]
    assert frame.columns == wanted_columns
    assert listed(frame) == expected
    assert listed(of(spark, history, since, until, **TINY)) == expected


@pytest.mark.deep
def test_until_now_from_a_time(spark: SparkSession, history: History) -> None:
    times = sorted(each.timestamp_ms for each in history.everything)
    some = times[-len(times) // 5]
    expected = wanted(history, history.at_time(some), history.end())
    assert listed(of(spark, history, Milliseconds(some), None)) == expected
    assert listed(of(spark, history, "latest", None)) == []


@pytest.mark.deep
def test_a_key_comes_in_offset_order(spark: SparkSession, history: History) -> None:
    rows = of(spark, history, history.compacted_end, None, **TINY).collect()
    assert rows
    last: dict[tuple[int, bytes], int] = {}
    for row in rows:
        assert last.get((row.partition, row.key), -1) < row.offset
        last[row.partition, row.key] = row.offset


def test_moments_that_do_not_fit(spark: SparkSession, history: History) -> None:
    with pytest.raises(OptionError, match="after their end"):
        of(spark, history, between(history, 0.5), between(history, 0.4))
    topic = Topic(history.topic.address, 1).create()
    topic.fill(10)
    topic.delete_records_before(0, 5)
    with pytest.raises(DataLoss, match="changes from 4 on are gone"):
        changes(spark, topic.name, {0: 4}, bootstrap=topic.address)
