"""Option by option beside Spark's own Kafka source: the same rows, or a refusal by both.

The same topics of the same Apache Kafka. What is meant to differ is in docs/spark.md.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession

from spark.topics import Topic

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

START_MS = 1_700_000_000_000
Both = tuple[str, str]


@pytest.fixture(scope="module")
def topics(kafka_address: str) -> dict[str, Topic]:
    """`t`: 20 and 10 records in two partitions, one a second; `u`: five in one partition."""
    t, u = Topic(kafka_address, 2).create(), Topic(kafka_address, 1).create()
    headers = [("a", b"1"), ("b", None), ("a", b"")]
    for partition, count in ((0, 20), (1, 10)):
        t.write(
            (
                partition,
                b"k%d" % each if each % 3 else None,
                b"v%d" % each if each % 4 else b"",
                START_MS + 1000 * each,
                headers if each % 2 else None,
            )
            for each in range(count)
        )
    u.fill(5)
    return {"T": t, "U": u}


def deep(options: dict[str, str]) -> Any:
    """A case that is left to script/assure: tests of options without Spark show ours."""
    return pytest.param(options, marks=pytest.mark.deep)


def load(reader: Any, source: str, topics: dict[str, Topic], options: Any) -> DataFrame:
    """Names of topics are put for T and U; `subscribe` is T unless something else is said."""
    given = {"kafka.bootstrap.servers": topics["T"].address, **options}
    if not given.keys() & {"subscribe", "subscribePattern", "assign"}:
        given["subscribe"] = "T"
    for name, value in given.items():
        for letter, topic in topics.items():
            value = value.replace(f'"{letter}"', f'"{topic.name}"')
            if name.startswith("subscribe"):
                value = value.replace(letter, topic.name)
        given[name] = value
    frame: DataFrame = reader.format(source).options(**given).load()
    return frame


def in_order(frame: DataFrame) -> list[Row]:
    return sorted(frame.collect(), key=lambda row: (row.topic, row.partition, row.offset))


def at(**offsets: int) -> str:
    """JSON for the partitions of T: `at(p0=3, p1=-1)`."""
    return json.dumps({"T": {name[1:]: offset for name, offset in offsets.items()}})


@pytest.mark.parametrize(
    "options",
    [
        {"includeHeaders": "true"},
        {"subscribe": "T, U", "startingOffsets": " Earliest ", "endingOffsets": "LATEST"},
        {"subscribePattern": r"(?<both>T|\QU\E)\p{L}*+"},
        deep({"subscribePattern": "T|__.*"}),  # no internal topics
        deep({"assign": '{"T":[1],"U":[0]}'}),
        {"startingOffsets": at(p0=3, p1=-2), "endingOffsets": at(p0=-1, p1=7)},
        deep({"startingTimestamp": str(START_MS + 4001), "endingTimestamp": str(START_MS + 8000)}),
        {
            "startingOffsetsByTimestamp": at(p0=START_MS + 5_000, p1=START_MS + 9_000),
            "endingOffsetsByTimestamp": at(p0=START_MS + 10_000, p1=START_MS + 99_000),
        },
        {  # past the end of the second partition
            "startingTimestamp": str(START_MS + 12_000),
            "startingOffsetsByTimestampStrategy": "latest",
        },
        deep({"startingOffsets": at(p0=2, p1=2), "endingTimestamp": str(START_MS + 6_000)}),
        {  # the timestamp for all wins
            "startingOffsets": at(p0=2, p1=2),
            "startingOffsetsByTimestamp": at(p0=START_MS + 3_000, p1=START_MS + 3_000),
            "startingTimestamp": str(START_MS + 4_000),
        },
        deep({"startingOffsets": at(p0=20, p1=10)}),
        {"noSuchOption": "x", "kafka.group.id": "g", "groupIdPrefix": "p", "topic": "x"},
    ],
    ids=lambda options: ",".join(options),
)
def test_the_same_rows(
    spark: SparkSession, both_sources: Both, topics: dict[str, Topic], options: Mapping[str, str]
) -> None:
    theirs, ours = (load(spark.read, source, topics, options) for source in both_sources)
    assert theirs.schema == ours.schema
    assert in_order(theirs) == in_order(ours)


@pytest.mark.parametrize(
    "options",
    [
        {"minPartitions": "7"},
        deep({"minPartitions": "1", "maxRecordsPerPartition": "100"}),
    ],
    ids=lambda options: ",".join(options),
)
def test_as_many_tasks(
    spark: SparkSession, both_sources: Both, topics: dict[str, Topic], options: Mapping[str, str]
) -> None:
    theirs, ours = (load(spark.read, source, topics, options) for source in both_sources)
    assert theirs.rdd.getNumPartitions() == ours.rdd.getNumPartitions()


@pytest.mark.parametrize(
    "options",
    [
        deep({"kafka.bootstrap.servers": ""}),
        deep({"subscribe": "T", "assign": '{"T":[0]}'}),
        deep({"subscribe": " "}),
        {"subscribe": "no-such-topic"},
        {"subscribePattern": "("},
        deep({"subscribePattern": ""}),
        deep({"assign": "T"}),
        deep({"startingOffsets": "latest"}),
        deep({"endingOffsets": "earliest"}),
        deep({"startingOffsets": at(p0=-1, p1=0)}),
        deep({"endingOffsets": at(p0=-2, p1=0)}),
        {"startingOffsets": at(p0=3)},
        deep({"startingOffsets": "[]"}),
        deep({"startingOffsets": at(p0=9, p1=0), "endingOffsets": at(p0=8, p1=1)}),
        deep({"startingTimestamp": "soon"}),
        {"startingTimestamp": str(START_MS + 12_000)},
        deep({"startingOffsetsByTimestampStrategy": "guess"}),
        deep({"startingOffsetsByTimestamp": "{"}),
        deep({"failOnDataLoss": "maybe"}),
        deep({"includeHeaders": "maybe"}),
        deep({"minPartitions": "0"}),
        deep({"maxRecordsPerPartition": "0"}),
        {"minPartitions": "many"},
        deep({"kafka.isolation.level": "serializable"}),
        deep({"kafka.auto.offset.reset": "latest"}),
        deep({"kafka.key.deserializer": "X"}),
        deep({"kafka.value.deserializer": "X"}),
        deep({"kafka.enable.auto.commit": "true"}),
        deep({"kafka.interceptor.classes": "X"}),
    ],
    ids=str,
)
def test_both_refuse(
    spark: SparkSession, both_sources: Both, topics: dict[str, Topic], options: Mapping[str, str]
) -> None:
    short = {"fetchOffset.numRetries": "1", "kafka.default.api.timeout.ms": "3000"}
    for source in both_sources:
        with pytest.raises((PySparkException, Py4JError)):
            load(spark.read, source, topics, short | options).count()


@pytest.mark.parametrize(
    "options",
    [
        deep({"endingOffsets": "latest"}),
        deep({"endingOffsetsByTimestamp": at(p0=START_MS, p1=START_MS)}),
        deep({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}),
        deep({"maxTriggerDelay": "soon", "minOffsetsPerTrigger": "8"}),
        {"startingOffsets": at(p0=3)},
    ],
    ids=str,
)
def test_both_refuse_in_a_stream(
    spark: SparkSession,
    both_sources: Both,
    topics: dict[str, Topic],
    options: Mapping[str, str],
    tmp_path: Path,
) -> None:
    for source in both_sources:
        with pytest.raises((PySparkException, Py4JError)):
            stream = load(spark.readStream, source, topics, options)
            writer = stream.writeStream.format("noop").trigger(availableNow=True)
            writer = writer.option("checkpointLocation", str(tmp_path / source))
            writer.start().awaitTermination()


@pytest.mark.deep
def test_each_batch_of_a_stream_ends_at_the_same_offsets(
    spark: SparkSession, both_sources: Both, topics: dict[str, Topic], tmp_path: Path
) -> None:
    options = topics["T"].options(
        subscribe=f"{topics['T'].name},{topics['U'].name}",
        startingOffsets="earliest",
        maxOffsetsPerTrigger=13,
    )
    journals = []
    for source in both_sources:
        stream = spark.readStream.format(source).options(**options).load()
        query = stream.writeStream.format("noop").trigger(availableNow=True)
        query.option("checkpointLocation", str(tmp_path / source)).start().awaitTermination()
        entries = sorted((tmp_path / source / "offsets").glob("[0-9]*"), key=lambda x: int(x.name))
        journals.append([json.loads(each.read_text().splitlines()[-1]) for each in entries])
    assert journals[0] == journals[1]


def test_kafkas_options_are_known(spark: SparkSession, both_sources: Both) -> None:
    from drumlin.spark.options.option_names import unknown_options

    jvm: Any = spark._jvm
    consumer = jvm.org.apache.kafka.clients.consumer.ConsumerConfig
    assert unknown_options(f"kafka.{name}" for name in consumer.configNames()) == []
