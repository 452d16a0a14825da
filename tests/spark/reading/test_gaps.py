"""Offsets without records: what transactions and compaction leave, as Apache Kafka serves them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

import drumlin
from rig.waiting import wait_until
from spark.topics import Topic, rows

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


@pytest.fixture(scope="module")
def topic(kafka_address: str) -> Topic:
    """Runs of offsets: visible, aborted, visible, aborted, each followed by its marker."""
    topic = Topic(kafka_address, 1).create()
    for name, outcome in enumerate(["commit", "abort", "commit", "abort"]):
        with transaction(topic, str(name), outcome) as producer:
            topic.write(
                (
                    (0, None, b"%s-%d" % (outcome.encode(), each), 1 + each, None)
                    for each in range(20)
                ),
                producer,
            )
        # The coordinator answers before it writes the marker: what is written next must not
        # come before it.
        wait_until(partial(is_stable, topic, 21 * (name + 1)), "the marker")
    return topic


def is_stable(topic: Topic, end_offset: int) -> bool:
    """Whether the log ends there, and no transaction is open."""
    with drumlin.connect(topic.address) as client:
        end = client.offsets(topic.name, isolation="read_committed")
    return end == {0: end_offset}


@contextmanager
def transaction(topic: Topic, name: str, outcome: str) -> Iterator[Producer]:
    settings = {"bootstrap.servers": topic.address, "transactional.id": f"{topic.name}-{name}"}
    producer = Producer(settings)
    producer.init_transactions(30)
    producer.begin_transaction()
    yield producer
    if outcome == "commit":
        producer.commit_transaction(30)
    else:
        producer.abort_transaction(30)


def offsets(spark: SparkSession, topic: Topic, start: int, end: int, level: str) -> list[int]:
    """What is read of the offsets from `start` up to `end`."""
    options = topic.options(
        startingOffsets=json.dumps({topic.name: {"0": start}}),
        endingOffsets=json.dumps({topic.name: {"0": end}}),
        kafka__isolation__level=level,
    )
    return [row[1] for row in rows(spark.read.format("drumlin").options(**options).load())]


# Offsets: 0-19 committed, 20 marker, 21-40 aborted, 41 marker, 42-61 committed, 62 marker,
# 63-82 aborted, 83 marker. SPARK-25005 names the four ways in which a range meets a gap.
@pytest.mark.parametrize(
    ("case", "start", "end", "visible"),
    [
        ("gap at the start", 25, 50, range(42, 50)),
        ("gap in the middle", 10, 50, [*range(10, 20), *range(42, 50)]),
        ("gap at the end", 50, 84, range(50, 62)),
        ("nothing but a gap", 20, 42, []),
        ("only a marker", 20, 21, []),
        ("everything", 0, 84, [*range(20), *range(42, 62)]),
    ],
)
def test_committed_records_only(
    spark: SparkSession, topic: Topic, case: str, start: int, end: int, visible: Any
) -> None:
    assert offsets(spark, topic, start, end, "read_committed") == list(visible), case


def test_markers_are_never_rows(spark: SparkSession, topic: Topic) -> None:
    everything = [each for each in range(84) if each not in (20, 41, 62, 83)]
    assert offsets(spark, topic, 0, 84, "read_uncommitted") == everything


def test_a_range_that_is_split_within_a_gap(spark: SparkSession, topic: Topic) -> None:
    options = topic.options(kafka__isolation__level="read_committed", minPartitions=13)
    frame = spark.read.format("drumlin").options(**options).load()
    assert frame.rdd.getNumPartitions() == 13
    assert [row[1] for row in rows(frame)] == [*range(20), *range(42, 62)]


@pytest.mark.deep
def test_a_stream_passes_over_gaps_and_ends(
    spark: SparkSession, topic: Topic, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("gaps")
    options = topic.options(
        kafka__isolation__level="read_committed",
        startingOffsets="earliest",
        maxOffsetsPerTrigger=15,
    )
    stream = spark.readStream.format("drumlin").options(**options).load()
    query = (
        stream.writeStream.format("parquet")
        .option("path", str(folder / "output"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    written = rows(spark.read.parquet(str(folder / "output")))
    assert [row[1] for row in written] == [*range(20), *range(42, 62)]
