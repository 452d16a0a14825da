"""Starts that the moment decides: what they stand for, and that a stream keeps it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable

import drumlin
from drumlin.spark.options.option_values import OptionError
from drumlin.spark.options.options import SourceOptions
from drumlin.spark.planning.cluster import Cluster
from drumlin.spark.planning.start_offsets import start_offsets
from drumlin.spark.reading.stream import StreamReader
from spark.pipeline import Pipeline
from spark.topics import Topic, rows

NewTopic = Callable[[int], Topic]


def starts(topic: Topic, text: str, **more: str) -> dict[int, int]:
    """The offset at which each partition begins."""
    options = SourceOptions.parse(
        topic.options() | {"startingoffsets": text} | more,
    )
    cluster = Cluster(options)
    assert options.starting is not None
    found = start_offsets(cluster, options.starting, cluster.partitions().keys())
    return {key.partition: offset for key, offset in found.items()}


def commit(topic: Topic, offsets: dict[int, int]) -> str:
    with drumlin.connect(topic.address) as client:
        client.commit_offsets(
            topic.name, {(topic.name, partition): offsets[partition] for partition in offsets}
        )
    return f"group:{topic.name}"


def test_the_offsets_of_a_group(new_topic: NewTopic, caplog: pytest.LogCaptureFixture) -> None:
    topic = new_topic(3)
    topic.fill(30)
    topic.delete_records_before(2, 4)
    group = commit(topic, {0: 7, 1: 10})
    assert starts(topic, group) == {0: 7, 1: 10, 2: 4}
    warning = f"group {topic.name!r} has committed no offset of {topic.name}-2: read from the first"
    assert warning in caplog.text
    with pytest.raises(OptionError, match=f"'startingOffsets': group 'none' .* {topic.name}-0, "):
        starts(topic, "group:none")
    with pytest.raises(OptionError, match="committed no offset"):
        starts(topic, group, subscribe=new_topic(1).name)


def test_a_time_before_now(new_topic: NewTopic) -> None:
    topic = new_topic(3)
    now_ms = time.time_ns() // 1_000_000
    ages_s = {0: (7200, 1000, 10), 1: (4000,)}  # and nothing at all in the third
    topic.write(
        (partition, None, b"v", now_ms - age * 1000, None)
        for partition, ages in ages_s.items()
        for age in ages
    )
    assert starts(topic, "30 minutes ago") == {0: 1, 1: 1, 2: 0}
    assert starts(topic, "3 hours ago") == {0: 0, 1: 0, 2: 0}
    assert starts(topic, "1s ago") == {0: 3, 1: 1, 2: 0}


def test_the_last_offsets_of_each_partition(new_topic: NewTopic) -> None:
    topic = new_topic(2)
    topic.fill(20)
    topic.delete_records_before(1, 8)
    assert starts(topic, "last 5") == {0: 5, 1: 8}
    assert starts(topic, "last 0") == {0: 10, 1: 10}
    assert starts(topic, "last 100") == {0: 0, 1: 8}


def test_what_arrives_while_the_start_is_resolved_is_read(
    new_topic: NewTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record is not there when it is looked for, and is when the end is."""
    topic = new_topic(1)
    topic.fill(3)
    look = Cluster._at

    def look_and_write(self: Cluster, times: object) -> object:
        found = look(self, times)  # type: ignore[arg-type]
        monkeypatch.setattr(Cluster, "_at", look)
        topic.write([(0, None, b"new", time.time_ns() // 1_000_000, None)])
        return found

    monkeypatch.setattr(Cluster, "_at", look_and_write)
    assert starts(topic, "10 minutes ago") == {0: 3}


def test_a_stream_keeps_its_start_in_the_checkpoint(new_topic: NewTopic) -> None:
    """A query that dies in its first batch has the start in the journal, where it stays."""
    topic = new_topic(1)
    topic.fill(20)
    options = SourceOptions.parse(topic.options() | {"startingoffsets": commit(topic, {0: 12})})
    first = StreamReader(options, Cluster(options))
    start = first.initialOffset()
    journalled = first.latestOffset(start, ReadAllAvailable())
    assert (start, journalled) == ({topic.name: {"0": 12}}, start)
    commit(topic, {0: 17})
    again = StreamReader(options, Cluster(options))
    assert again.initialOffset() == {topic.name: {"0": 17}}
    assert again.partitions(again.initialOffset(), journalled) == []
    assert again.latestOffset(journalled, ReadAllAvailable()) == {topic.name: {"0": 20}}


@pytest.mark.spark
@pytest.mark.deep
def test_a_batch_and_a_stream_start_there_and_the_stream_keeps_it(
    spark: SparkSession, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(1)
    topic.fill(20)
    group = commit(topic, {0: 12})
    source = spark.read.format("drumlin")
    assert (
        rows(source.options(**topic.options(startingOffsets=group)).load())
        == (topic.expected()[12:])
    )
    with pytest.raises(PySparkException, match="option 'startingOffsets': group 'none'"):
        source.options(**topic.options(startingOffsets="group:none")).load().count()
    pipeline = Pipeline(spark, tmp_path, topic, startingOffsets=group)
    pipeline.run()
    (tmp_path / "checkpoint" / "commits" / "0").unlink()  # as if it had died in its first batch
    (tmp_path / "checkpoint" / "commits" / ".0.crc").unlink()
    commit(topic, {0: 17})
    pipeline.run()
    assert pipeline.written() == topic.expected()[12:]
