"""Topics that queries are captured into, as an unmodified client reads them."""

from __future__ import annotations

import random
import uuid
from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition
from pyspark.sql import DataFrame, SparkSession

from drumlin.spark import QueryChanges, capture_query
from spark.topics import Topic

#: By key: number, text.
Table = dict[int, tuple[int | None, str]]


def frame_of(spark: SparkSession, table: Table) -> DataFrame:
    """The table as a query's result."""
    rows = [(key, number, text) for key, (number, text) in table.items()]
    return spark.createDataFrame(rows, "id int, number int, text string")


def captured(spark: SparkSession, table: Table, topic: Topic, **more: Any) -> QueryChanges:
    """A run of the query."""
    frame = frame_of(spark, table)
    return capture_query(frame, topic.name, bootstrap=topic.address, key=["id"], **more)


def random_table(chance: random.Random) -> Table:
    """Some of 30 keys, with values that often come back."""
    return {
        key: (chance.choice([None, 0, 1]), chance.choice(["x", "y"]))
        for key in range(30)
        if chance.random() < 0.6
    }


def records_of(table: Table) -> dict[bytes, bytes]:
    """What the topic must hold of it."""
    return {key_of(key): value_of(key, *rest) for key, rest in table.items()}


def key_of(key: int) -> bytes:
    return b'{"id":%d}' % key


def value_of(key: int, number: int | None, text: str) -> bytes:
    shown = "null" if number is None else str(number)
    return f'{{"id":{key},"number":{shown},"text":"{text}"}}'.encode()


def log_of(topic: Topic) -> list[tuple[int, bytes, bytes | None]]:
    """All committed records by partition, key and value, in the order of each partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": topic.address,
            "group.id": uuid.uuid4().hex,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    places = [TopicPartition(topic.name, each, 0) for each in range(topic.partitions)]
    consumer.assign(places)
    found, ended = [], set()
    while len(ended) < topic.partitions:
        message = consumer.poll(30)
        assert message is not None, "the broker is silent"
        error = message.error()
        if error is None:
            found.append((message.partition(), message.key(), message.value()))
        else:
            assert error.code() == KafkaError._PARTITION_EOF, error
            ended.add(message.partition())
    consumer.close()
    return found


def values_in(topic: Topic) -> dict[bytes, bytes]:
    """The last value of each key, which must be in one partition only."""
    placed = placed_values(topic)
    found = {key: value for (_, key), value in placed.items()}
    assert len(found) == len(placed), "a key is in several partitions"
    return found


def placed_values(topic: Topic) -> dict[tuple[int, bytes], bytes]:
    """The last value of each key of each partition."""
    found: dict[tuple[int, bytes], bytes] = {}
    for partition, key, value in log_of(topic):
        if value is None:
            found.pop((partition, key), None)
        else:
            found[partition, key] = value
    return found
