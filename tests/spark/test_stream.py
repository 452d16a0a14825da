"""`spark.readStream.format("drumlin")`: nothing is lost and nothing comes twice."""

from __future__ import annotations

import itertools
import json
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from rig.waiting import wait_until
from spark.pipeline import CONTINUALLY, NewTopic, Pipeline
from spark.topics import Topic, rows

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
    progress = query.lastProgress
    assert progress is not None
    assert json.loads(progress.sources[0].latestOffset) == pipeline.journal()[-1]
    for count in (0, 50):
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


def test_a_query_that_is_killed_over_and_over(
    spark: SparkSession, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(2)
    pipeline = Pipeline(spark, tmp_path, topic, maxOffsetsPerTrigger=300)

    def fill() -> None:
        for _ in range(18):
            topic.fill(100)

    filler = threading.Thread(target=fill)
    filler.start()
    for wanted in (2, 4):
        query = pipeline.start(CONTINUALLY)
        has_begun = partial(pipeline.has_begun, wanted)
        wait_until(has_begun, f"batch {wanted} to be begun")
        query.stop()  # in the middle of whatever it is doing
    filler.join()
    pipeline.run()
    assert pipeline.written() == topic.expected()


def test_a_batch_that_failed_is_read_again_just_as_it_was(
    spark: SparkSession, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(2)
    topic.fill(200)
    seen: list[list[tuple[Any, ...]]] = []

    def fail_once(batch: DataFrame, batch_id: int) -> None:
        seen.append(rows(batch))
        if len(seen) == 2:
            raise RuntimeError("as if the driver had died")

    def run() -> None:
        stream = spark.readStream.format("drumlin").options(
            **topic.options(startingOffsets="earliest", maxOffsetsPerTrigger=80)
        )
        query = stream.load().writeStream.foreachBatch(fail_once).trigger(availableNow=True)
        query.option("checkpointLocation", str(tmp_path)).start().awaitTermination()

    with pytest.raises(StreamingQueryException, match="as if the driver had died"):
        run()
    topic.fill(300)
    run()
    assert seen[1] == seen[2]
    assert sorted(row for batch in seen[:1] + seen[2:] for row in batch) == topic.expected()


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


def test_a_start_at_the_end_is_not_forgotten(
    spark: SparkSession, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(1)
    topic.fill(10)
    pipeline = Pipeline(spark, tmp_path, topic, startingOffsets="latest")
    pipeline.run()
    (tmp_path / "checkpoint" / "commits" / "0").unlink()  # as if it had died in its first batch
    (tmp_path / "checkpoint" / "commits" / ".0.crc").unlink()
    topic.fill(20)
    pipeline.run()
    topic.fill(5)
    pipeline.run()
    assert pipeline.written() == topic.expected()[10:]


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


def test_a_deleted_topic(spark: SparkSession, new_topic: NewTopic, tmp_path: Path) -> None:
    stays, goes = new_topic(1), new_topic(1)
    for topic in (stays, goes):
        topic.fill(10)
    pipeline = Pipeline(spark, tmp_path, stays, subscribe=f"{stays.name},{goes.name}")
    pipeline.run()
    goes.delete()
    stays.fill(10)
    with pytest.raises(StreamingQueryException, match=f"does not show partitions: {goes.name}-0"):
        pipeline.run()
    pipeline.options["failOnDataLoss"] = "false"
    pipeline.run()
    assert len(pipeline.written()) == 30


def test_records_that_went_before_they_were_read(
    spark: SparkSession, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(1)
    topic.fill(10)
    pipeline = Pipeline(spark, tmp_path, topic)
    pipeline.run()
    topic.fill(20)
    topic.delete_records_before(0, 15)
    with pytest.raises(StreamingQueryException, match="failOnDataLoss"):
        pipeline.run()
    pipeline.options["failOnDataLoss"] = "false"
    pipeline.run()
    assert pipeline.written() == [row for row in topic.expected() if not 10 <= row[1] < 15]


def test_an_end_is_refused(spark: SparkSession, new_topic: NewTopic, tmp_path: Path) -> None:
    pipeline = Pipeline(spark, tmp_path, new_topic(1), endingOffsets="latest")
    with pytest.raises(PySparkException, match="not valid in streaming"):
        pipeline.run()
