"""Each batch once, with real Spark: whatever is run again, readers see the rows one time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from drumlin.client.client import Client, connect
from rig.waiting import wait_until
from spark.topics import Topic

pytestmark = pytest.mark.spark

NewTopic = Callable[[int], Topic]


@pytest.fixture(scope="module")
def reading(address: str) -> Iterator[Client]:
    with connect(address) as client:
        yield client


def values(client: Client, topic: str) -> list[bytes]:
    return sorted(client.read(topic, isolation="read_committed")["value"].to_pylist())


def write(frame: DataFrame, topic: Topic, **options: object) -> None:
    given = {"kafka.bootstrap.servers": topic.address, "topic": topic.name}
    given |= {name: str(each) for name, each in options.items()}
    frame.write.format("drumlin").options(**given).mode("append").save()


def copying(spark: SparkSession, source: Topic, rows: int = 100) -> DataFrame:
    options = source.options(maxOffsetsPerTrigger=rows, startingOffsets="earliest")
    return spark.readStream.format("drumlin").options(**options).load().select("key", "value")


def run(query: StreamingQuery) -> None:
    assert query.awaitTermination(90)
    assert query.exception() is None


def start(frame: DataFrame, target: Topic, checkpoint: Path, **options: object) -> StreamingQuery:
    given = {"kafka.bootstrap.servers": target.address, "topic": target.name}
    given |= {name: str(each) for name, each in options.items()}
    writer = frame.writeStream.format("drumlin").options(**given)
    return writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()


def all_values(topic: Topic) -> list[Any]:
    return sorted(each[2] for each in topic.produced)


def test_a_stream_needs_no_option(
    spark: SparkSession, new_topic: NewTopic, reading: Client, tmp_path: Path
) -> None:
    source, target = new_topic(2), new_topic(3)
    source.fill(300)
    run(start(copying(spark, source), target, tmp_path))
    assert values(reading, target.name) == all_values(source)
    source.fill(50)
    run(start(copying(spark, source), target, tmp_path))
    assert values(reading, target.name) == all_values(source)


def test_a_batch_that_spark_runs_again_is_not_written_again(
    spark: SparkSession, new_topic: NewTopic, reading: Client, tmp_path: Path
) -> None:
    source, target = new_topic(2), new_topic(3)
    source.fill(200)
    run(start(copying(spark, source), target, tmp_path))
    commits = sorted((tmp_path / "commits").glob("[0-9]*"), key=lambda each: int(each.name))
    last = commits[-1]
    last.unlink()  # as if the driver had died between the sink's commit and Spark's
    (last.parent / f".{last.name}.crc").unlink(missing_ok=True)
    source.fill(40)
    run(start(copying(spark, source), target, tmp_path))
    assert values(reading, target.name) == all_values(source)


def test_nothing_of_a_batch_that_failed_is_seen(
    spark: SparkSession, new_topic: NewTopic, reading: Client
) -> None:
    topic = new_topic(3)
    frame = spark.range(0, 1_000, 1, 4)
    bad = frame.selectExpr("if(id = 990, raise_error('no'), concat('v', id)) AS value")
    with pytest.raises(PySparkException, match="no"):
        # A task that is killed at the very end leaves a transaction to its time-out.
        write(bad, topic, transactionTimeoutMs=5_000)
    assert values(reading, topic.name) == []
    good = frame.selectExpr("concat('v', id) AS value")
    write(good, topic)
    wait_until(lambda: len(values(reading, topic.name)) >= 1_000, "the rows are seen")
    assert values(reading, topic.name) == sorted(b"v%d" % number for number in range(1_000))
    write(good.limit(0), topic)
    assert len(values(reading, topic.name)) == 1_000


def test_a_write_that_has_a_name_is_made_once(
    spark: SparkSession, new_topic: NewTopic, reading: Client
) -> None:
    topic = new_topic(2)
    frame = spark.range(0, 20, 1, 2).selectExpr("concat('v', id) AS value")
    for _ in range(2):
        write(frame, topic, writeId=f"{topic.name}-june")
    assert len(values(reading, topic.name)) == 20
    write(frame, topic)
    assert len(values(reading, topic.name)) == 40


@pytest.mark.deep
def test_writes_in_for_each_batch(
    spark: SparkSession, new_topic: NewTopic, reading: Client, tmp_path: Path
) -> None:
    source, one, other = new_topic(2), new_topic(2), new_topic(2)
    source.fill(60)

    def write_both(frame: DataFrame, batch: int) -> None:
        write(frame, one)
        if batch == 1 and fails:
            fails.pop()
            raise RuntimeError("between the two")
        write(frame, other)

    fails = [True]
    for _ in range(2):
        query = (
            copying(spark, source, 20)
            .writeStream.foreachBatch(write_both)
            .option("checkpointLocation", str(tmp_path))
            .trigger(availableNow=True)
            .start()
        )
        try:
            query.awaitTermination(90)
        except PySparkException as error:
            assert "between the two" in str(error)
    assert query.exception() is None
    assert fails == []
    assert values(reading, one.name) == all_values(source)
    assert values(reading, other.name) == all_values(source)


@pytest.mark.deep
def test_two_writes_of_a_batch_to_one_topic_need_names(
    spark: SparkSession, new_topic: NewTopic, reading: Client, tmp_path: Path
) -> None:
    source, target = new_topic(1), new_topic(1)
    source.fill(10)

    def run_with(names: tuple[dict[str, str], dict[str, str]]) -> None:
        def write_twice(frame: DataFrame, _: int) -> None:
            for options in names:
                write(frame, target, **options)

        writer = copying(spark, source).writeStream.foreachBatch(write_twice)
        writer = writer.option("checkpointLocation", str(tmp_path / "/".join(names[1].values())))
        run(writer.trigger(availableNow=True).start())

    with pytest.raises(PySparkException, match="need an option 'sinkId' each"):
        run_with(({}, {}))
    assert len(values(reading, target.name)) == 10
    run_with(({"sinkId": f"{target.name}-a"}, {"sinkId": f"{target.name}-b"}))
    assert len(values(reading, target.name)) == 30


@pytest.mark.deep
def test_a_job_group_of_the_users_own_hides_no_write(
    spark: SparkSession, new_topic: NewTopic, reading: Client, tmp_path: Path
) -> None:
    source, target = new_topic(1), new_topic(1)
    source.fill(10)

    def write_twice(frame: DataFrame, _: int) -> None:
        spark.sparkContext.setJobGroup("mine", "all that I do")
        write(frame, target)
        write(frame, target)

    writer = copying(spark, source).writeStream.foreachBatch(write_twice)
    writer = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
    with pytest.raises(PySparkException, match="need an option 'sinkId' each"):
        run(writer.start())


@pytest.mark.deep
def test_transactions_of_a_stream_are_named_after_its_run(
    spark: SparkSession, new_topic: NewTopic, reading: Client, tmp_path: Path
) -> None:
    source, target = new_topic(1), new_topic(1)
    source.fill(40)
    query = start(copying(spark, source, 10), target, tmp_path)
    run(query)
    prefix = f"drumlin.{query.id}.{target.name}."
    names = [each.transactional_id for each in reading.list_transactions()]
    own = [each.removeprefix(prefix) for each in names if each.startswith(prefix)]
    assert "driver" in own
    assert {each.split(".")[0] for each in own if each != "driver"} == {query.runId}
    assert len(own) < 5  # four batches share the ids of the workers
