"""`spark.read.format("drumlin")` against a real broker: what was produced is what is read."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from drumlin.spark.options.source_rows import COLUMNS
from drumlin.spark.source import spark_schema
from spark.topics import Topic, rows

pytestmark = pytest.mark.spark

NewTopic = Callable[[int], Topic]


def read(spark: SparkSession, options: dict[str, str]) -> DataFrame:
    return spark.read.format("drumlin").options(**options).load()


def test_every_record_as_it_was_produced(spark: SparkSession, new_topic: NewTopic) -> None:
    topic = new_topic(3)
    topic.fill(1_000)
    topic.write([(1, b"", b"", 1_600_000_000_000, None), (1, b"k", None, 1, None)])
    frame = read(spark, topic.options())
    assert frame.schema == spark_schema()
    assert rows(frame) == topic.expected()
    others = frame.select("topic", "timestampType").distinct().collect()
    assert [(row.topic, row.timestampType) for row in others] == [(topic.name, 0)]


def test_headers(spark: SparkSession, new_topic: NewTopic) -> None:
    topic = new_topic(1)
    some = [("a", b"1"), ("b", None), ("a", b"")]
    topic.write([(0, b"k", b"v", 0, some), (0, b"k", b"v", 0, None)])
    frame = read(spark, topic.options(includeHeaders="true"))
    assert frame.schema == spark_schema((*COLUMNS, "headers"))
    first, second = frame.orderBy("offset").collect()
    assert second.headers is None
    assert [(header.key, header.value) for header in first.headers] == some


def test_several_topics_by_name_by_pattern_and_by_partition(
    spark: SparkSession, new_topic: NewTopic
) -> None:
    one, other = new_topic(2), new_topic(2)
    one.fill(20)
    other.fill(30)
    servers = {"kafka.bootstrap.servers": one.address}
    by_name = read(spark, servers | {"subscribe": f"{one.name}, {other.name}"})
    assert by_name.count() == 50
    by_pattern = read(spark, servers | {"subscribePattern": f"{one.name[:-1]}.|{other.name}"})
    assert by_pattern.count() == 50
    start = json.dumps({one.name: "earliest", other.name: {"0": 10, "1": -2}})
    end = json.dumps({one.name: {"0": 5, "1": 5}, other.name: "latest"})
    by_word = servers | {"subscribe": f"{one.name},{other.name}"}
    by_word |= {"startingOffsets": start, "endingOffsets": end}
    assert read(spark, by_word).count() == 5 + 5 + 5 + 15
    assigned = read(spark, servers | {"assign": json.dumps({one.name: [1]})})
    assert rows(assigned) == [row for row in one.expected() if row[0] == 1]


def test_start_and_end_by_offset_and_by_time(spark: SparkSession, new_topic: NewTopic) -> None:
    topic = new_topic(2)
    topic.fill(100)  # the n-th at 1_700_000_000_000 + n, in turn to both partitions
    start = json.dumps({topic.name: {"0": 10, "1": -2}})
    end = json.dumps({topic.name: {"0": -1, "1": 20}})
    by_offset = read(spark, topic.options(startingOffsets=start, endingOffsets=end))
    assert rows(by_offset) == [
        row
        for row in topic.expected()
        if (row[0] == 0 and row[1] >= 10) or (row[0] and row[1] < 20)
    ]
    times = {"startingTimestamp": 1_700_000_000_030, "endingTimestamp": 1_700_000_000_050}
    by_time = read(spark, topic.options(**times))
    assert rows(by_time) == [row for row in topic.expected() if 30 <= row[4] % 1000 < 50]
    too_young = topic.options(startingTimestamp=1_800_000_000_000)
    with pytest.raises(PySparkException, match="no record is at or after the starting timestamp"):
        read(spark, too_young).count()
    latest = too_young | {"startingOffsetsByTimestampStrategy": "latest"}
    assert read(spark, latest).count() == 0


@pytest.mark.parametrize(
    ("option", "tasks"), [({"minPartitions": 5}, 5), ({"maxRecordsPerPartition": 30}, 8), ({}, 1)]
)
def test_ranges_are_shared_out_among_tasks(
    spark: SparkSession, new_topic: NewTopic, option: dict[str, int], tasks: int
) -> None:
    topic = new_topic(2)
    topic.fill(200)
    frame = read(spark, topic.options(**option))
    assert frame.rdd.getNumPartitions() == tasks
    assert rows(frame) == topic.expected()


def test_an_empty_topic(spark: SparkSession, new_topic: NewTopic) -> None:
    assert read(spark, new_topic(2).options()).collect() == []


def test_records_that_are_gone(spark: SparkSession, new_topic: NewTopic) -> None:
    topic = new_topic(1)
    topic.fill(100)
    topic.delete_records_before(0, 40)
    from_the_first = topic.options(startingOffsets=json.dumps({topic.name: {"0": 0}}))
    with pytest.raises(PySparkException, match="failOnDataLoss"):
        read(spark, from_the_first).collect()
    left = [row for row in topic.expected() if row[1] >= 40]
    lenient = from_the_first | {"failOnDataLoss": "false", "minPartitions": "3"}
    assert rows(read(spark, lenient)) == left
    assert rows(read(spark, topic.options())) == left


@pytest.mark.deep
def test_an_end_that_the_log_does_not_reach(spark: SparkSession, new_topic: NewTopic) -> None:
    topic = new_topic(1)
    topic.fill(10)
    end = json.dumps({topic.name: {"0": 12}})
    options = topic.options(endingOffsets=end)
    with pytest.raises(PySparkException, match="failOnDataLoss"):
        read(spark, options).collect()
    assert read(spark, options | {"failOnDataLoss": "false"}).count() == 10


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"subscribePattern": "x"}, "exactly one of"),
        ({"startingOffsets": "latest"}, "can't be latest"),
        ({"startingOffsets": '{"other":{"0":1}}'}, "all topic-partitions"),
        ({"kafka.auto.offset.reset": "earliest"}, "startingOffsets"),
    ],
)
def test_bad_options_are_explained(
    spark: SparkSession, new_topic: NewTopic, change: dict[str, str], message: str
) -> None:
    with pytest.raises(PySparkException, match=message):
        read(spark, new_topic(1).options() | change).collect()


def test_columns_are_selected_by_option_and_by_schema(
    spark: SparkSession, new_topic: NewTopic
) -> None:
    topic = new_topic(2)
    topic.write([(0, b"k", b"v", 1_600_000_000_000, [("h", b"1")]), (1, None, b"w", 0, None)])
    by_option = read(spark, topic.options(columns="Offset, value,partition"))
    assert by_option.columns == ["offset", "value", "partition"]
    found = sorted(tuple(row) for row in by_option.collect())
    assert [(offset, bytes(value), partition) for offset, value, partition in found] == [
        (0, b"v", 0),
        (0, b"w", 1),
    ]
    reader = spark.read.format("drumlin").options(**topic.options())
    header = "headers array<struct<key: string, value: binary>>"
    by_schema = reader.schema(f"topic string, {header}").load()
    headers = {row.topic: row.headers for row in by_schema.where("headers is not null").collect()}
    assert [(each.key, bytes(each.value)) for each in headers[topic.name]] == [("h", b"1")]
    assert reader.schema("timestampType int").load().collect() == [(0,), (0,)]


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("value string", "column 'value' is binary, not string"),
        ("offset int, value binary", "column 'offset' is bigint, not int"),
        ("headers array<string>", "column 'headers' is array"),
        ("payload binary", "no column 'payload'"),
    ],
)
def test_a_schema_of_other_columns_is_refused_by_name(
    spark: SparkSession, address: str, schema: str, message: str
) -> None:
    reader = spark.read.format("drumlin").options(**Topic(address).options())
    with pytest.raises(PySparkException, match=message):
        reader.schema(schema).load().collect()


def test_columns_and_schema_may_not_contradict(spark: SparkSession, address: str) -> None:
    options = Topic(address).options(columns="value")
    with pytest.raises(PySparkException, match="leave out one of them"):
        spark.read.format("drumlin").options(**options).schema("key binary").load().collect()


def test_a_topic_that_is_not_there(spark: SparkSession, address: str) -> None:
    topic = Topic(address)
    options = topic.options(fetchOffset__numRetries=1)
    with pytest.raises(PySparkException, match=topic.name):
        read(spark, options).collect()
