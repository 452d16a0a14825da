"""`spark.readStream.format("drumlin")`: where a query starts, and how far its batches go."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from drumlin.spark import progress
from rig.depth import IS_DEEP
from rig.waiting import wait_until
from spark.pipeline import CONTINUALLY, NewTopic, Pipeline
from spark.topics import Topic

pytestmark = pytest.mark.spark


def test_available_now_reads_all_and_ends_and_a_restart_goes_on(
    spark: SparkSession, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(2)
    topic.fill(500)
    pipeline = Pipeline(spark, tmp_path, topic)
    query = pipeline.run()
    assert pipeline.written() == topic.expected()
    assert pipeline.journal() == [{topic.name: {"0": 250, "1": 250}}]  # as Spark's Kafka source
    found = progress(query)
    assert found is not None
    assert (found.behind, found.sources[0].rows) == (0, 500)
    assert [each.latest_offset for each in found.partitions] == [250, 250]
    for count in (0, 50)[not IS_DEEP :]:
        topic.fill(count)
        pipeline.run()
        assert pipeline.written() == topic.expected()


def test_admission_control(spark: SparkSession, new_topic: NewTopic, tmp_path: Path) -> None:
    topic = new_topic(2)
    topic.write((0, None, b"x", 1, None) for _ in range(90))
    topic.write((1, None, b"y", 1, None) for _ in range(10))
    pipeline = Pipeline(spark, tmp_path, topic, maxOffsetsPerTrigger=40)
    pipeline.run()
    assert pipeline.written() == topic.expected()
    ends = [entry[topic.name] for entry in pipeline.journal()]
    assert ends == [{"0": 36, "1": 4}, {"0": 72, "1": 8}, {"0": 90, "1": 10}]


@pytest.mark.deep
def test_micro_batches_of_about_so_many_bytes(
    spark: SparkSession, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(2)
    topic.write((number % 2, None, b"x" * 10_000, 1 + number, None) for number in range(600))
    limits = {"maxBytesPerTrigger": 2_000_000, "maxOffsetsPerTrigger": 250}
    pipeline = Pipeline(spark, tmp_path, topic, **limits)
    pipeline.run()
    assert pipeline.written() == topic.expected()
    ends = [sum(each[topic.name].values()) for each in pipeline.journal()]
    taken = [end - start for start, end in itertools.pairwise([0, *ends])]
    assert all(170 <= each <= 210 for each in taken[:-1]), "the bytes are the narrower limit"
    assert sum(taken) == 600


def test_a_query_that_starts_at_the_end(
    spark: SparkSession, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(2)
    topic.fill(10)
    pipeline = Pipeline(spark, tmp_path, topic, startingOffsets="latest")
    query = pipeline.start(CONTINUALLY)
    try:
        query.processAllAvailable()
        topic.fill(20)
        query.processAllAvailable()
    finally:
        query.stop()
    assert pipeline.written() == [row for row in topic.expected() if row[1] >= 5]


@pytest.mark.deep
def test_new_partitions_are_read_from_their_start(
    spark: SparkSession, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(1)
    topic.fill(10)
    pipeline = Pipeline(spark, tmp_path, topic, maxOffsetsPerTrigger=1_000)
    pipeline.run()
    topic.add_partitions(3)
    topic.fill(30)
    pipeline.run()
    assert pipeline.written() == topic.expected()


def test_too_little_is_left_for_later(
    spark: SparkSession, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(1)
    topic.fill(10)
    pipeline = Pipeline(spark, tmp_path, topic, minOffsetsPerTrigger=50, maxTriggerDelay="1h")
    query = pipeline.start(CONTINUALLY)
    try:
        wait_until(lambda: len(pipeline.journal()) == 1, "the first batch, which never waits")
        topic.fill(49)
        wait_until(lambda: _reported_end(query, topic) == 59, "the query to see the new records")
        assert len(pipeline.journal()) == 1
        topic.fill(1)
        wait_until(lambda: len(pipeline.journal()) == 2, "the batch that is large enough")
        query.processAllAvailable()
    finally:
        query.stop()
    assert pipeline.written() == topic.expected()


def _reported_end(query: StreamingQuery, topic: Topic) -> int | None:
    progress = query.lastProgress
    if progress is None:
        return None
    end = json.loads(progress.sources[0].latestOffset or "{}")
    found: int | None = end.get(topic.name, {}).get("0")
    return found


def test_an_end_is_refused(spark: SparkSession, new_topic: NewTopic, tmp_path: Path) -> None:
    pipeline = Pipeline(spark, tmp_path, new_topic(1), endingOffsets="latest")
    with pytest.raises(PySparkException, match="not valid in streaming"):
        pipeline.run()
