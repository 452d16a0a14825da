"""A topic's table at every kind of moment, against a dict; by the function and by the option."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from drumlin import Milliseconds
from drumlin.spark import snapshot
from drumlin.spark.options.source_rows import COLUMNS
from drumlin.spark.planning.data_loss import DataLoss
from spark.state.history import History, State
from spark.topics import Topic

pytestmark = pytest.mark.spark

#: All paths run: many tasks, each hands out often what it has, in many cells.
TINY = {"taskMemory": 3000, "minPartitions": 7, "reducers": 3, "batchBytes": 2000}


def table(frame: DataFrame) -> State:
    rows = frame.collect()
    found = {(row.partition, bytes(row.key)): bytes(row.value) for row in rows}
    assert len(found) == len(rows), "a key came twice"
    return found


def of(spark: SparkSession, history: History, **more: Any) -> DataFrame:
    topic = history.topic
    return snapshot(spark, topic.name, bootstrap=topic.address, **more)


def between(history: History, part: float) -> dict[int, int]:
    """Offsets in the part of the log that was not compacted."""
    end = history.end()
    return {
        partition: first + int((end[partition] - first) * part)
        for partition, first in history.compacted_end.items()
    }


def test_now_and_at_offsets(spark: SparkSession, history: History) -> None:
    now = of(spark, history)
    assert now.columns == ["key", "value", "headers", "topic", "partition", "offset", "timestamp"]
    assert table(now) == history.state(history.end())
    for part in (0, 0.4):
        ends = between(history, part)
        assert table(of(spark, history, at=ends, **TINY)) == history.state(ends)
    by_topic = {history.topic.name: between(history, 0.7)}
    wanted = history.state(between(history, 0.7))
    assert table(of(spark, history, at=by_topic)) == wanted
    assert table(of(spark, history, at=json.dumps(by_topic))) == wanted


def test_at_a_time(spark: SparkSession, history: History) -> None:
    times = sorted(each.timestamp_ms for each in history.everything)
    some = times[-len(times) // 5]
    ends = history.at_time(some)
    assert all(ends[each] >= first for each, first in history.compacted_end.items())
    wanted = history.state(ends)
    assert table(of(spark, history, at=Milliseconds(some))) == wanted
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=some, microseconds=999)
    assert table(of(spark, history, at=moment, **TINY)) == wanted


def test_columns_come_as_they_are_asked_for(spark: SparkSession, history: History) -> None:
    frame = of(spark, history, columns=["offset", "topic", "key", "partition"], **TINY)
    assert frame.columns == ["offset", "topic", "key", "partition"]
    rows = frame.collect()
    wanted = history.state(history.end())
    assert {(row.partition, bytes(row.key)) for row in rows} == wanted.keys()
    assert {row.topic for row in rows} == {history.topic.name}
    last = {(each.partition, each.key): each.offset for each in history.committed}
    assert all(last[row.partition, bytes(row.key)] == row.offset for row in rows)


def test_headers_timestamps_and_what_has_no_key(spark: SparkSession, address: str) -> None:
    topic = Topic(address, 1).create()
    assert table(snapshot(spark, topic.name, bootstrap=address)) == {}
    topic.write(
        [
            (0, b"", b"of no letters", 1_700_000_000_000, [("a", b"1"), ("b", None)]),
            (0, None, b"no key", 1_700_000_000_001, None),
            (0, b"gone", b"x", 1_700_000_000_002, None),
            (0, b"gone", None, 1_700_000_000_003, None),
        ]
    )
    (row,) = snapshot(spark, topic.name, bootstrap=address).collect()
    assert (bytes(row.key), bytes(row.value)) == (b"", b"of no letters")
    assert [(each.key, each.value) for each in row.headers] == [("a", b"1"), ("b", None)]
    assert row.timestamp == datetime(2023, 11, 14, 22, 13, 20)
    with pytest.raises(DataLoss, match=r"ends at offset 4, before 5.*which snapshots and ch"):
        snapshot(spark, topic.name, bootstrap=address, at={0: 5})


def by_option(spark: SparkSession, history: History, moment: object, **more: object) -> DataFrame:
    options = history.topic.options(snapshot=moment, **more)
    return spark.read.format("drumlin").options(**options).load()


def test_by_the_option(spark: SparkSession, history: History) -> None:
    now = by_option(spark, history, "latest", taskMemory=2000)
    assert tuple(now.columns) == COLUMNS
    assert table(now) == history.state(history.end())
    ends = between(history, 0.5)
    then = json.dumps({history.topic.name: ends})
    frame = by_option(spark, history, then, columns="key,partition,value", includeHeaders=True)
    assert frame.columns == ["key", "partition", "value"]
    assert table(frame) == history.state(ends)


def test_the_option_stands_alone(spark: SparkSession, history: History) -> None:
    with pytest.raises(PySparkException, match="'startingOffsets' does not go with a state"):
        by_option(spark, history, "latest", startingOffsets="earliest")
    with pytest.raises(PySparkException, match="'snapshot' does not go with a stream"):
        stream = spark.readStream.format("drumlin")
        options = history.topic.options(snapshot="latest")
        stream.options(**options).load().writeStream.format("noop").start().awaitTermination()


@pytest.mark.deep
def test_across_partitions_the_latest_timestamp_counts(spark: SparkSession, address: str) -> None:
    """As in a topic that was given more partitions; within one, offsets say what is last."""
    topic = Topic(address, 1).create()
    topic.write(
        (0, key, b"old", 1_700_000_000_000 + at, None) for at, key in enumerate([b"k", b"gone"])
    )
    topic.write([(0, b"back", b"first", 1_700_000_009_000, None)])
    topic.add_partitions(3)
    topic.write([(1, b"k", b"new", 1_700_000_005_000, None)])
    topic.write([(2, b"gone", None, 1_700_000_005_000, None)])
    topic.write([(0, b"back", b"second", 1_700_000_001_000, None)])
    topic.write([(1, b"back", b"third", 1_700_000_001_000, None)])

    def found(**more: Any) -> list[tuple[Any, ...]]:
        frame = snapshot(spark, topic.name, bootstrap=address, **more)
        return sorted(tuple(row) for row in frame.collect())

    columns = ["value", "key", "partition"]
    across = found(keys="across partitions", columns=columns)
    assert across == [(b"new", b"k", 1), (b"third", b"back", 1)]
    assert found(keys="across partitions", columns=["partition"]) == [(1,), (1,)]
    assert (b"old", b"gone", 0) in found(columns=columns)
    with pytest.raises(ValueError, match="expected one of by partition, across partitions"):
        found(keys="both")
