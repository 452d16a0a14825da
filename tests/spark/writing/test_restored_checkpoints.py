"""A batch number that comes again: as it was, with other rows, or as another batch."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from drumlin.client.client import connect
from drumlin.spark import sink
from spark.topics import Topic

pytestmark = pytest.mark.spark

NewTopic = Callable[[int], Topic]
Way = Callable[[DataStreamWriter, Topic], DataStreamWriter]


def by_stream(writer: DataStreamWriter, target: Topic) -> DataStreamWriter:
    options = {"kafka.bootstrap.servers": target.address, "topic": target.name}
    return writer.format("drumlin").options(**options)


def by_function(writer: DataStreamWriter, target: Topic) -> DataStreamWriter:
    return writer.foreachBatch(sink(target.name, bootstrap=target.address))


def with_group(writer: DataStreamWriter, target: Topic) -> DataStreamWriter:
    options = {"transactionalGroup": f"group-of-{target.name}"}
    return writer.foreachBatch(sink(target.name, bootstrap=target.address, **options))


def stream(spark: SparkSession, source: Topic) -> DataFrame:
    options = source.options(startingOffsets="earliest")
    return spark.readStream.format("drumlin").options(**options).load()


def run(rows: DataFrame, way: Way, target: Topic, checkpoint: Path, **options: str) -> None:
    """All that is there now."""
    writer = way(rows.writeStream, target).options(**options)
    writer = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    writer.start().awaitTermination()


def written(topic: Topic) -> list[bytes]:
    with connect(topic.address) as client:
        return sorted(client.read(topic.name, isolation="read_committed")["value"].to_pylist())


WAYS = [
    (by_stream, "now has 8 rows [^{]*which"),
    pytest.param(by_function, 'up to .*"0": 3.*"0": 8', marks=pytest.mark.deep),
    pytest.param(with_group, 'up to .*"0": 3.*"0": 8', marks=pytest.mark.deep),
]


@pytest.mark.deep
@pytest.mark.parametrize(("way", "told"), WAYS, ids=["stream", "function", "group"])
def test_a_batch_that_is_planned_anew_is_not_the_one_that_was_decided(
    spark: SparkSession, new_topic: NewTopic, tmp_path: Path, way: Way, told: str
) -> None:
    """The rows that it has and the decided one had not would be lost, and nobody told."""
    source, target = new_topic(1), new_topic(1)
    rows = stream(spark, source).select("value")
    checkpoint, backup = tmp_path / "checkpoint", tmp_path / "backup"
    source.fill(3)
    run(rows, way, target, checkpoint)
    backup.mkdir()  # of the time when the query had no batch yet
    shutil.copy(checkpoint / "metadata", backup)
    before = written(target)
    assert len(before) == 3
    source.fill(5)
    with pytest.raises(PySparkException, match=f"batch 0 .*was decided with 3 rows .*{told}"):
        run(rows, way, target, backup)
    assert written(target) == before
    run(rows, way, target, checkpoint)  # the newest one goes on
    assert len(written(target)) == 8


@pytest.mark.deep
def test_a_batch_from_the_journal_is_the_same_whatever_its_rows_are_now(
    spark: SparkSession, new_topic: NewTopic, tmp_path: Path
) -> None:
    source, target = new_topic(1), new_topic(1)
    rows = stream(spark, source).selectExpr("uuid() AS value")
    source.fill(4)
    run(rows, by_function, target, tmp_path / "checkpoint")
    before = written(target)
    for file in (tmp_path / "checkpoint" / "commits").iterdir():
        file.unlink()  # as if the driver had died behind the decision
    run(rows, by_function, target, tmp_path / "checkpoint")
    assert written(target) == before


@pytest.mark.deep
def test_who_says_that_rows_may_differ_keeps_what_was_decided(
    spark: SparkSession, new_topic: NewTopic, tmp_path: Path
) -> None:
    """A stream's sink is not told where its batch ends: only the rows show which one it is."""
    source, target = new_topic(1), new_topic(1)
    rows = stream(spark, source).selectExpr("uuid() AS value")
    source.fill(4)
    run(rows, by_stream, target, tmp_path / "checkpoint")
    before = written(target)
    for file in (tmp_path / "checkpoint" / "commits").iterdir():
        file.unlink()
    with pytest.raises(PySparkException, match="rowsMayDiffer=true keeps the decided ones"):
        run(rows, by_stream, target, tmp_path / "checkpoint")
    run(rows, by_stream, target, tmp_path / "checkpoint", rowsMayDiffer="true")
    assert written(target) == before


@pytest.mark.deep
def test_a_named_write_is_made_once_and_is_no_other(
    spark: SparkSession, new_topic: NewTopic
) -> None:
    target = new_topic(2)
    options = {
        "kafka.bootstrap.servers": target.address,
        "topic": target.name,
        "writeId": f"june-of-{target.name}",
    }

    def write(count: int, parts: int) -> None:
        rows = spark.range(count).repartition(parts).selectExpr("string(id) AS value")
        rows.write.format("drumlin").mode("append").options(**options).save()

    write(4, 1)
    write(4, 3)  # in other partitions, in another order
    with pytest.raises(PySparkException, match=r"this write was decided .*another writeId"):
        write(5, 1)
    assert written(target) == [b"0", b"1", b"2", b"3"]
