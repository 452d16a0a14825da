"""The same rows through Spark's own Kafka sink and through ours are the same records."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from drumlin.client.client import connect
from spark.topics import Topic

pytestmark = pytest.mark.spark

NewTopic = Callable[[int], Topic]
HEADERS = "headers array<struct<key: string, value: binary>>"


def write(frame: DataFrame, sink: str, address: str, options: dict[str, str]) -> None:
    given = {"kafka.bootstrap.servers": address} | options
    given["delivery"] = "at-least-once"
    frame.write.format(sink).options(**given).mode("append").save()


def records(address: str, topic: str) -> list[tuple[Any, ...]]:
    with connect(address) as client:
        found = client.read(topic, headers=True).to_pylist()
    return [(each["partition"], each["key"], each["value"], each["headers"]) for each in found]


@pytest.mark.parametrize(
    ("schema", "rows"),
    [
        ("key string, value string", [(f"k{n}", f"v{n}") for n in range(50)]),
        ("key binary, value binary", [(b"\xff\x00", b"\x80"), (b"", b""), (b"k", None)]),
        ("partition int, value string, more int", [(2, "a", 1), (0, "b", 2), (2, None, 3)]),
        ("partition int, key string, value string", [(None, "x", "1"), (1, "x", "2")]),
        (
            f"{HEADERS}, key string, value string",
            [([("h", b"1"), ("h", None)], "k", "v"), (None, "k", "w"), ([], "k", "x")],
        ),
    ],
)
def test_columns_mean_the_same(
    spark: SparkSession,
    both_sources: tuple[str, str],
    new_topic: NewTopic,
    schema: str,
    rows: list[Any],
) -> None:
    found = []
    for sink in both_sources:
        topic = new_topic(3)
        frame = spark.createDataFrame(rows, schema).coalesce(1)
        write(frame, sink, topic.address, {"topic": topic.name})
        found.append(records(topic.address, topic.name))
    assert len(found[0]) == len(rows)
    assert found[0] == found[1]


def test_a_column_timestamp_is_left_out(
    spark: SparkSession, both_sources: tuple[str, str], new_topic: NewTopic
) -> None:
    """Records of years ago would be gone with the next look of retention."""
    begun_ms = time.time_ns() // 1_000_000
    frame = spark.range(1).selectExpr("'v' AS value", "timestamp'2023-01-01' AS timestamp")
    for sink in both_sources:
        topic = new_topic(1)
        write(frame, sink, topic.address, {"topic": topic.name})
        with connect(topic.address) as client:
            (at,) = client.read(topic.name)["timestamp"].cast(pa.int64()).to_pylist()
        assert at >= begun_ms


def test_the_option_topic_wins_over_the_column(
    spark: SparkSession, both_sources: tuple[str, str], new_topic: NewTopic
) -> None:
    for sink in both_sources:
        chosen, named = new_topic(1), new_topic(1)
        rows = [(named.name, "a"), (None, "b")]
        frame = spark.createDataFrame(rows, "topic string, value string").coalesce(1)
        write(frame, sink, chosen.address, {"topic": chosen.name})
        assert [each[2] for each in records(chosen.address, chosen.name)] == [b"a", b"b"]
        assert records(named.address, named.name) == []


@pytest.mark.parametrize(
    ("columns", "options"),
    [
        ("'k' AS key", {"topic": "TOPIC"}),
        pytest.param("1 AS value", {"topic": "TOPIC"}, marks=pytest.mark.deep),
        pytest.param("1 AS key, 'v' AS value", {"topic": "TOPIC"}, marks=pytest.mark.deep),
        ("'v' AS value", {}),
        pytest.param("cast(null AS string) AS topic, 'v' AS value", {}, marks=pytest.mark.deep),
        pytest.param("1 AS topic, 'v' AS value", {}, marks=pytest.mark.deep),
        ("1L AS partition, 'v' AS value", {"topic": "TOPIC"}),
        ("7 AS partition, 'v' AS value", {"topic": "TOPIC"}),
        pytest.param("-1 AS partition, 'v' AS value", {"topic": "TOPIC"}, marks=pytest.mark.deep),
        pytest.param(
            "map('h', 'x') AS headers, 'v' AS value", {"topic": "TOPIC"}, marks=pytest.mark.deep
        ),
        ("'v' AS value", {"topic": "TOPIC", "kafka.key.serializer": "X"}),
        ("repeat('x', 3000000) AS value", {"topic": "TOPIC"}),
    ],
)
def test_what_one_refuses_the_other_refuses(
    spark: SparkSession,
    both_sources: tuple[str, str],
    new_topic: NewTopic,
    columns: str,
    options: dict[str, str],
) -> None:
    topic = new_topic(2)
    given = {name: each.replace("TOPIC", topic.name) for name, each in options.items()}
    # Kafka's producer waits a minute for a partition that is not there.
    given["kafka.max.block.ms"] = "1000"
    for sink in both_sources:
        frame = spark.sql(f"SELECT {columns}")
        with pytest.raises((PySparkException, Py4JJavaError)):
            write(frame, sink, topic.address, given)
    assert records(topic.address, topic.name) == []
