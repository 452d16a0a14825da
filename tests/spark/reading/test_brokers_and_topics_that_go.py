"""Brokers that are killed and topics that go while Spark reads: some are waited for, some lost."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from drumlin.spark.options.offsets import TopicPartition
from drumlin.spark.options.options import SourceOptions
from drumlin.spark.planning.cluster import Cluster
from rig.brokers.drumlin_server import DrumlinServer, running_server
from rig.waiting import wait_until
from spark.pipeline import CONTINUALLY, NewTopic, Pipeline
from spark.topics import Topic, rows

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DrumlinServer]:
    """A broker to be killed."""
    with running_server(tmp_path_factory.mktemp("killed")) as server:
        yield server


def planned(spark: SparkSession, topic: Topic, **options: object) -> DataFrame:
    """A batch that is planned, and not yet read."""
    chosen = topic.options(**options)
    frame = spark.read.format("drumlin").options(**chosen).load()
    assert frame.rdd.getNumPartitions() > 0
    return frame


@pytest.mark.deep
def test_a_batch_waits_for_a_broker_that_was_killed(
    spark: SparkSession, server: DrumlinServer
) -> None:
    topic = Topic(server.address, 2).create()
    topic.fill(500)
    frame = planned(spark, topic, failOnDataLoss="false")
    server.kill()
    read: list[list[tuple[Any, ...]]] = []
    reading = threading.Thread(target=lambda: read.append(rows(frame)))
    reading.start()
    reading.join(3)
    assert reading.is_alive()  # workers that have no connection yet wait as well
    server.start()
    reading.join(60)
    assert read == [topic.expected()]


@pytest.mark.deep
def test_a_stream_goes_on_after_its_broker_was_killed(
    spark: SparkSession, server: DrumlinServer, tmp_path: Path
) -> None:
    topic = Topic(server.address, 2).create()
    topic.fill(100)
    pipeline = Pipeline(spark, tmp_path, topic, failOnDataLoss="false", maxOffsetsPerTrigger=70)
    query = pipeline.start(CONTINUALLY)
    try:
        wait_until(lambda: pipeline.has_begun(1), "the first batch")
        server.kill()
        server.start()
        topic.fill(100)
        query.processAllAvailable()
        server.kill()
        query.stop()
        query = pipeline.start(CONTINUALLY)  # from the checkpoint, and no broker is there
        server.start()
        topic.fill(100)
        query.processAllAvailable()
    finally:
        query.stop()
    assert pipeline.written() == topic.expected()


def test_a_topic_that_is_made_anew_between_two_questions(
    new_topic: NewTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of the new log, asked for by name, is not taken for one of the log before."""
    topic = new_topic(1)
    topic.fill(10)
    place = TopicPartition(topic.name, 0)
    cluster = Cluster(SourceOptions.parse(topic.options()))
    before = cluster.partitions()[place].topic_id
    ask = cluster._list
    made_anew: list[Topic] = []

    def ask_late(*wanted: Any) -> dict[TopicPartition, int]:
        if not made_anew:
            topic.delete()
            made_anew.append(Topic(topic.address, 1, topic.name).create())
            made_anew[0].fill(25)
        return ask(*wanted)

    monkeypatch.setattr(cluster, "_list", ask_late)
    shown = cluster.logs(expected={place})[place]
    assert shown.end_offset == 25
    assert shown.topic_id not in (None, before)


@pytest.mark.deep
@pytest.mark.parametrize("fail", [pytest.param(True, marks=pytest.mark.deep), False])
def test_a_topic_that_is_made_anew_while_a_stream_runs(
    spark: SparkSession, new_topic: NewTopic, tmp_path: Path, fail: bool
) -> None:
    topic = new_topic(1)
    topic.fill(10)
    pipeline = Pipeline(spark, tmp_path, topic, failOnDataLoss=str(fail).lower())
    pipeline.options["fetchOffset.retryIntervalMs"] = "100"
    query = pipeline.start(CONTINUALLY)
    try:
        query.processAllAvailable()
        before = topic.expected()
        topic.delete()
        again = Topic(topic.address, 1, topic.name).create()
        again.fill(25)
        if fail:
            wait_until(lambda: not query.isActive, "the query to fail")
            with pytest.raises(StreamingQueryException, match=f"{topic.name}-0"):
                query.awaitTermination()
            assert pipeline.journal()[-1] == {topic.name: {"0": 10}}
        else:
            wait_until(lambda: len(pipeline.written()) == 35, "all of the new topic")
            query.processAllAvailable()
            assert pipeline.written() == sorted(before + again.expected())
    finally:
        query.stop()


@pytest.mark.deep
def test_a_topic_that_was_made_anew_between_two_runs(
    spark: SparkSession, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(1)
    topic.fill(10)
    pipeline = Pipeline(spark, tmp_path, topic)
    pipeline.options["fetchOffset.retryIntervalMs"] = "100"
    pipeline.run()
    before = topic.expected()
    topic.delete()
    again = Topic(topic.address, 1, topic.name).create()
    again.fill(4)
    with pytest.raises(StreamingQueryException, match=f"created again: {topic.name}-0"):
        pipeline.run()
    assert pipeline.journal() == [{topic.name: {"0": 10}}]
    pipeline.options["failOnDataLoss"] = "false"
    pipeline.run()
    assert pipeline.written() == sorted(before + again.expected())


@pytest.mark.parametrize("fail", ["true", "false"])
def test_retention_that_overtakes_a_task(
    spark: SparkSession, new_topic: NewTopic, fail: str
) -> None:
    topic = new_topic(1)
    topic.fill(30)
    frame = planned(spark, topic, failOnDataLoss=fail)
    topic.delete_records_before(0, 12)
    if fail == "true":
        with pytest.raises(PySparkException, match=f"{topic.name}' partition 0: offset 0 is out"):
            rows(frame)
    else:
        assert rows(frame) == topic.expected()[12:]


@pytest.mark.parametrize("fail", ["true", pytest.param("false", marks=pytest.mark.deep)])
def test_a_topic_that_is_deleted_before_it_is_read(
    spark: SparkSession, new_topic: NewTopic, fail: str
) -> None:
    topic = new_topic(1)
    topic.fill(30)
    frame = planned(spark, topic, failOnDataLoss=fail)
    topic.delete()
    if fail == "true":
        with pytest.raises(PySparkException, match=f"{topic.name}-0 at offset 0: .* deleted"):
            rows(frame)
    else:
        assert rows(frame) == []


@pytest.mark.deep
def test_a_stream_that_is_united_with_itself(
    spark: SparkSession, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(1)
    topic.fill(5)
    options = topic.options(startingOffsets="latest")

    def run() -> None:
        stream = spark.readStream.format("drumlin").options(**options).load()
        query = (
            stream.union(stream)
            .writeStream.format("parquet")
            .option("path", str(tmp_path / "output"))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    run()
    (tmp_path / "checkpoint" / "commits" / "0").unlink()  # as if it had died in its first batch
    (tmp_path / "checkpoint" / "commits" / ".0.crc").unlink()
    topic.fill(10)
    run()
    written = rows(spark.read.parquet(str(tmp_path / "output")))
    assert written == sorted(topic.expected()[5:] * 2)


def test_a_start_behind_the_end_is_no_loss(spark: SparkSession, new_topic: NewTopic) -> None:
    topic = new_topic(1)
    topic.fill(10)
    first = topic.produced[0][3]
    options = topic.options(startingTimestamp=first + 8, endingTimestamp=first + 2)
    with pytest.raises(PySparkException, match="start at offset 8, after its end 2"):
        spark.read.format("drumlin").options(**options).load().collect()
