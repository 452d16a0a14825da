"""Gaps as a cleaner leaves them, Drumlin's and Kafka's, read through Spark to the last offset.

The log: rounds of records with the same keys, each a transaction; every third one aborted. Some
keys end in tombstones. The very last transaction is aborted, so that the log ends in offsets that
no committed reader gets a record for.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.sql import SparkSession

from rig.brokers.drumlin_server import DrumlinServer
from rig.data import compacted_topic
from rig.waiting import wait_until
from spark.topics import Topic, rows

pytestmark = pytest.mark.spark

ROUNDS, KEYS = 31, 40
LEVELS = ("read_committed", pytest.param("read_uncommitted", marks=pytest.mark.deep))
#: By then each key has been written again, in segments that are not the last one.
SUPERSEDED = 15 * (KEYS + 1)


@pytest.fixture(
    scope="module",
    params=["drumlin", pytest.param("kafka", marks=[pytest.mark.kafka, pytest.mark.deep])],
)
def topic(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Topic]:
    if request.param == "drumlin":
        settings = {"log.cleaner.backoff.ms": "50"}
        server = DrumlinServer(tmp_path_factory.mktemp("cleaning"), settings)
        try:
            server.start()
            yield cleaned(server.address)
        finally:
            server.close()
        server.check_output()
    else:
        address = request.getfixturevalue("kafka_address")
        compacted_topic.alter(address, None, {"log.cleaner.backoff.ms": "100"})
        yield cleaned(address)


def cleaned(address: str) -> Topic:
    topic = Topic(address, 1)
    compacted_topic.create(address, topic.name, delete_retention_ms="0")
    producer = Producer({"bootstrap.servers": address, "transactional.id": topic.name})
    producer.init_transactions(30)
    for number in range(ROUNDS):
        producer.begin_transaction()
        for key in range(KEYS):
            is_gone = key < 5 and number >= ROUNDS // 2
            value = None if is_gone else b"%d-" % number + b"x" * 200
            producer.produce(topic.name, value, b"key-%d" % key, partition=0)
        end = producer.abort_transaction if number % 3 == 0 else producer.commit_transaction
        end(30)
    wait_until(
        lambda: min(offsets(topic, "read_uncommitted")) >= SUPERSEDED,
        "the cleaner to have been there",
        compacted_topic.CLEANED_S,
    )
    # From here on nothing changes any more.
    compacted_topic.alter(address, topic.name, {"cleanup.policy": "delete", "retention.ms": "-1"})
    return topic


def offsets(topic: Topic, level: str) -> list[int]:
    """Of all that Kafka's client reads."""
    settings = {
        "bootstrap.servers": topic.address,
        "group.id": "reader",
        "enable.partition.eof": True,
        "isolation.level": level,
    }
    found = []
    with closing(Consumer(settings)) as consumer:
        consumer.assign([TopicPartition(topic.name, 0, 0)])
        while (message := consumer.poll(20)) is not None and not message.error():
            found.append(message.offset())
    assert message is not None, "it came to no end"
    return found


def rows_of(spark: SparkSession, source: str, options: dict[str, str]) -> list[tuple[Any, ...]]:
    return rows(spark.read.format(source).options(**options).load())


@pytest.mark.parametrize("level", LEVELS)
def test_a_batch_reads_what_is_left(
    spark: SparkSession, both_sources: tuple[str, str], topic: Topic, level: str
) -> None:
    left = offsets(topic, level)
    assert left[-1] < ROUNDS * (KEYS + 1) - (KEYS if level == "read_committed" else 1)
    options = topic.options(kafka__isolation__level=level)
    theirs, ours = (rows_of(spark, source, options) for source in both_sources)
    assert [row[1] for row in ours] == left
    assert ours == theirs


@pytest.mark.deep
@pytest.mark.parametrize("level", LEVELS)
def test_tasks_and_batches_that_begin_and_end_in_gaps(
    spark: SparkSession, topic: Topic, tmp_path: Path, level: str
) -> None:
    left = offsets(topic, level)
    options = topic.options(kafka__isolation__level=level)
    assert [row[1] for row in rows_of(spark, "drumlin", options | {"minPartitions": "9"})] == left
    stream = spark.readStream.format("drumlin").options(
        **options, startingOffsets="earliest", maxOffsetsPerTrigger="400"
    )
    query = stream.load().writeStream.format("parquet").option("path", str(tmp_path / "output"))
    query = query.option("checkpointLocation", str(tmp_path / "checkpoint"))
    query.trigger(availableNow=True).start().awaitTermination()
    assert [row[1] for row in rows(spark.read.parquet(str(tmp_path / "output")))] == left
