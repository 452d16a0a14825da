"""`drumlin.spark.sink` in `foreachBatch`: output mode update, and several topics at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col

from drumlin.client.client import connect
from drumlin.spark import sink
from drumlin.spark.options.option_values import OptionError
from spark.sink_proof.reading import read_committed
from spark.topics import Topic

pytestmark = pytest.mark.spark

NewTopic = Callable[[int], Topic]
Write = Callable[[DataFrame, int], None]


def run(rows: DataFrame, write: Write, checkpoint: Path, mode: str = "append") -> None:
    """All that is there now."""
    writer = rows.writeStream.outputMode(mode).foreachBatch(write)
    writer = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    writer.start().awaitTermination()


def stream(spark: SparkSession, topic: Topic, **options: object) -> DataFrame:
    given = topic.options(startingOffsets="earliest", **options)
    return spark.readStream.format("drumlin").options(**given).load()


def written(topic: Topic) -> Counter[tuple[bytes | None, bytes | None]]:
    """Keys and values, and how often each is there."""
    rows = read_committed(topic.address, topic.name, topic.partitions, 30)
    return Counter((row.key, row.value) for row in rows)


@pytest.mark.deep
def test_counts_are_written_as_they_change(
    spark: SparkSession, new_topic: NewTopic, tmp_path: Path
) -> None:
    source, target = new_topic(1), new_topic(1)
    write = sink(target.name, bootstrap=target.address)
    counts = stream(spark, source).groupBy("key").count()
    counts = counts.select("key", col("count").cast("string").alias("value"))
    source.write([(0, key, b"", 1, None) for key in (b"a", b"b", b"a")])
    run(counts, write, tmp_path / "checkpoint", "update")
    source.write([(0, b"b", b"", 1, None)])
    run(counts, write, tmp_path / "checkpoint", "update")
    rows = read_committed(target.address, target.name, 1, 30)
    assert sorted((row.key, row.value) for row in rows[:2]) == [(b"a", b"2"), (b"b", b"1")]
    assert [(row.key, row.value) for row in rows[2:]] == [(b"b", b"2")]


@pytest.mark.deep
def test_several_topics(spark: SparkSession, new_topic: NewTopic, tmp_path: Path) -> None:
    source, copies, lengths = new_topic(2), new_topic(2), new_topic(1)
    source.fill(20)
    write = sink(
        {
            copies.name: lambda rows: rows.select("key", "value"),
            lengths.name: lambda rows: rows.selectExpr("cast(length(value) AS string) AS value"),
        },
        bootstrap=source.address,
    )
    run(stream(spark, source), write, tmp_path / "checkpoint")
    assert written(copies) == Counter((key, value) for _, key, value, _, _ in source.produced)
    assert written(lengths) == {(None, b"7"): 10, (None, b"8"): 10}


def test_rows_may_name_their_topic(
    spark: SparkSession, new_topic: NewTopic, tmp_path: Path
) -> None:
    source, target = new_topic(1), new_topic(1)
    source.fill(3)
    rows = stream(spark, source).selectExpr(f"'{target.name}' AS topic", "value")
    run(rows, sink(bootstrap=source.address), tmp_path / "checkpoint")
    assert written(target) == {(None, b"value-%d" % number): 1 for number in range(3)}


@pytest.mark.deep
def test_the_sources_offsets_go_with_the_decision(
    spark: SparkSession, new_topic: NewTopic, tmp_path: Path
) -> None:
    source, target = new_topic(2), new_topic(2)
    source.fill(20)
    options = {"transactionalGroup": f"group-of-{target.name}"}
    write = sink(target.name, bootstrap=source.address, **options)
    run(stream(spark, source, maxOffsetsPerTrigger=8), write, tmp_path / "checkpoint")
    with connect(source.address) as client:
        found = client.committed_offsets(options["transactionalGroup"])
    assert {place: each.offset for place, each in found.items()} == {
        (source.name, 0): 10,
        (source.name, 1): 10,
    }


@pytest.mark.deep
def test_a_group_with_members_is_refused(
    spark: SparkSession, new_topic: NewTopic, tmp_path: Path
) -> None:
    """Brokers would take the offsets: the members continue from where they are all the same."""
    source, target = new_topic(1), new_topic(1)
    source.fill(6)
    group = f"group-of-{target.name}"
    write = sink(target.name, bootstrap=source.address, transactionalGroup=group)
    with connect(source.address) as client:
        with client.consumer(source.name, group=group, start="earliest") as member:
            assert member.poll(timeout_ms=20_000) is not None
            with pytest.raises(PySparkException, match=f"group '{group}' .* has members"):
                run(stream(spark, source), write, tmp_path / "checkpoint")
            assert written(target).total() == 0
        run(stream(spark, source), write, tmp_path / "checkpoint")
        assert written(target).total() == 6
        assert client.committed_offsets(group)[source.name, 0].offset == 6


@pytest.mark.parametrize(
    ("columns", "complaint"),
    [(["key"], "no column 'value'; they have key"), (["id AS value"], "column 'value' is bigint")],
)
def test_what_one_of_several_topics_cannot_have_is_refused(
    spark: SparkSession, address: str, columns: list[str], complaint: str
) -> None:
    """In the union of all rows, those without a value would have null: a tombstone each."""
    write = sink(
        {
            "whole": lambda rows: rows.selectExpr("key", "key AS value"),
            "lacking": lambda rows: rows.selectExpr(*columns),
        },
        bootstrap=address,
    )
    with pytest.raises(OptionError, match=f"topic 'lacking': .*{complaint}"):
        write(spark.range(1).selectExpr("id", "string(id) AS key"), 0)


def test_an_option_that_is_none_is_not_given(spark: SparkSession, new_topic: NewTopic) -> None:
    topic = new_topic(1)
    write = sink(topic.name, bootstrap=topic.address, sinkId=None, writeId=None)
    for _ in range(2):
        write(spark.range(3).selectExpr("string(id) AS value"), 0)
    assert written(topic).total() == 6


def test_a_sink_has_a_topic() -> None:
    with pytest.raises(OptionError, match="at least one"):
        sink({}, bootstrap="127.0.0.1:9092")
