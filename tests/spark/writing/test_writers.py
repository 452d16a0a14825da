"""`format("drumlin")` as a sink, with real Spark and a real broker: the rows are the records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from drumlin.client.client import Client, connect
from spark.topics import Topic

pytestmark = pytest.mark.spark

NewTopic = Callable[[int], Topic]


@pytest.fixture(scope="session")
def reading(address: str) -> Iterator[Client]:
    with connect(address) as client:
        yield client


def write(frame: DataFrame, address: str, **options: object) -> None:
    given = {name.replace("__", "."): str(value) for name, value in options.items()}
    given["kafka.bootstrap.servers"] = address
    frame.write.format("drumlin").options(**given).mode("append").save()


def records(client: Client, topic: str) -> list[dict[str, Any]]:
    return client.read(topic, headers=True).drop_columns(["timestamp_type"]).to_pylist()


def test_rows_of_a_batch_become_records(
    spark: SparkSession, new_topic: NewTopic, reading: Client
) -> None:
    topic = new_topic(3)
    frame = spark.range(0, 5_000, 1, 4).selectExpr(
        "cast(id % 100 as string) AS key", "cast(concat('value-', id) as binary) AS value"
    )
    write(frame, topic.address, topic=topic.name)
    found = records(reading, topic.name)
    assert sorted((each["key"], each["value"]) for each in found) == sorted(
        (b"%d" % (number % 100), b"value-%d" % number) for number in range(5_000)
    )
    partitions: dict[bytes, set[int]] = {}
    for each in found:
        partitions.setdefault(each["key"], set()).add(each["partition"])
    assert all(len(each) == 1 for each in partitions.values())


def test_all_columns(spark: SparkSession, new_topic: NewTopic, reading: Client) -> None:
    one, other = new_topic(3), new_topic(3)
    schema = (
        "topic string, partition int, key string, value binary, timestamp bigint, "
        "headers array<struct<key: string, value: binary>>, more string"
    )
    rows = [
        (one.name, 2, "k", b"v", 1_600_000_000_000, [("a", b"1"), ("a", None)], "x"),
        (other.name, 0, None, None, 1_600_000_000_001, None, "x"),
        (one.name, 1, "", b"", 1_600_000_000_002, [], "x"),
    ]
    frame = spark.createDataFrame(rows, schema)
    write(frame, one.address, delivery="at-least-once", writeTimestamps=True)
    found = [
        (each["partition"], each["key"], each["value"], each["headers"])
        for each in records(reading, one.name)
    ]
    headers = [{"key": "a", "value": b"1"}, {"key": "a", "value": None}]
    assert found == [(1, b"", b"", []), (2, b"k", b"v", headers)]
    times = reading.read(one.name)["timestamp"].cast(pa.int64()).to_pylist()
    assert times == [1_600_000_000_002, 1_600_000_000_000]
    (last,) = records(reading, other.name)
    assert (last["partition"], last["key"], last["value"]) == (0, None, None)


def test_a_stream(
    spark: SparkSession, new_topic: NewTopic, reading: Client, tmp_path: Path
) -> None:
    source, target = new_topic(2), new_topic(3)
    source.fill(300)
    query = (
        spark.readStream.format("drumlin")
        .options(**source.options(maxOffsetsPerTrigger=100, startingOffsets="earliest"))
        .load()
        .select("key", "value")
        .writeStream.format("drumlin")
        .option("kafka.bootstrap.servers", target.address)
        .option("topic", target.name)
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(60)
    assert query.exception() is None
    written = sorted(each["value"] for each in records(reading, target.name))
    assert written == sorted(each[2] for each in source.produced)


@pytest.mark.parametrize(
    ("columns", "options", "complaint"),
    [
        ("id", {"topic": "t"}, "no column 'value'; they have id"),
        ("id AS value", {"topic": "t"}, "column 'value' is bigint, and must be a string"),
        ("'v' AS value", {}, "set the option 'topic'"),
        ("'v' AS value, 1L AS partition", {"topic": "t"}, "column 'partition' is bigint"),
        ("'v' AS value", {"topic": "t", "delivery": "at-most-once"}, "exactly-once"),
        ("'v' AS value, array('h') AS headers", {"topic": "t"}, "column 'headers' is array"),
        ("'v' AS value", {"topic": "t", "kafka__transactional__id": "x"}, "see 'sinkId'"),
    ],
)
def test_what_cannot_be_written_is_refused_before_a_task_runs(
    spark: SparkSession, address: str, columns: str, options: dict[str, str], complaint: str
) -> None:
    frame = spark.range(1).selectExpr(*columns.split(", "))
    with pytest.raises(PySparkException, match=complaint):
        write(frame, address, **options)


def test_rows_that_cannot_be_records_are_named(spark: SparkSession, new_topic: NewTopic) -> None:
    topic = new_topic(2)
    frame = spark.range(0, 10, 1, 1)
    no_topic = frame.selectExpr(f"if(id = 7, null, '{topic.name}') AS topic", "'v' AS value")
    with pytest.raises(PySparkException, match="row 7 has no topic"):
        write(no_topic, topic.address)
    elsewhere = frame.selectExpr("cast(id as int) AS partition", "'v' AS value")
    with pytest.raises(PySparkException, match=f"row 2 is for partition 2 of topic '{topic.name}'"):
        write(elsewhere, topic.address, topic=topic.name)
    large = frame.selectExpr("if(id = 3, repeat('x', 2000000), 'v') AS value")
    with pytest.raises(PySparkException, match=f"'{topic.name}' partition .*message_too_large"):
        write(large, topic.address, topic=topic.name)


@pytest.mark.parametrize(
    ("mode", "complaint"),
    [
        ("overwrite", "records can only be appended to a topic"),
        ("ignore", "UNSUPPORTED_DATA_SOURCE_SAVE_MODE"),
        ("errorifexists", "UNSUPPORTED_DATA_SOURCE_SAVE_MODE"),  # Spark's default
    ],
)
def test_other_save_modes_are_refused(
    spark: SparkSession, address: str, mode: str, complaint: str
) -> None:
    writer = spark.range(1).selectExpr("'v' AS value").write.format("drumlin")
    writer = writer.option("kafka.bootstrap.servers", address).option("topic", "t")
    with pytest.raises(PySparkException, match=complaint):
        writer.mode(mode).save()
