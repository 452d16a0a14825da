"""Transactions that are given less time than their batch takes: an error that says so, no rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from drumlin.client.client import connect
from spark.topics import Topic

pytestmark = pytest.mark.spark

NewTopic = Callable[[int], Topic]

#: The pauses are longer by the ten seconds after which brokers look for what has timed out.
TIMEOUT_MS = 1_000


def slow(partition: int, rows_before: int, pause_s: float) -> Callable[[Iterator[Any]], Any]:
    """Rows as they are; this partition pauses when so many of its rows have gone."""

    def pass_on(batches: Iterator[Any]) -> Iterator[Any]:
        import time

        from pyspark import TaskContext

        context = TaskContext.get()
        seen = 0
        for batch in batches:
            yield batch
            seen += batch.num_rows
            if context is not None and context.partitionId() == partition and seen >= rows_before:
                rows_left = seen - batch.num_rows < rows_before
                time.sleep(pause_s if rows_left else 0)

    return pass_on


def write(frame: DataFrame, topic: Topic, **options: object) -> None:
    given = {"kafka.bootstrap.servers": topic.address, "topic": topic.name}
    given |= {name.replace("__", "."): str(each) for name, each in options.items()}
    frame.write.format("drumlin").options(**given).mode("append").save()


def committed(topic: Topic) -> int:
    with connect(topic.address) as client:
        return len(client.read(topic.name, isolation="read_committed"))


@pytest.mark.deep
@pytest.mark.parametrize(
    "partition, rows_before",
    [(0, 20_000), pytest.param(1, 1, marks=pytest.mark.deep)],
    ids=["in the middle of a task", "while another task writes"],
)
def test_a_batch_that_takes_longer(
    spark: SparkSession, new_topic: NewTopic, partition: int, rows_before: int
) -> None:
    topic = new_topic(2)
    frame = spark.range(0, 60_000, 1, 2).selectExpr("repeat(string(id), 200) AS value")
    late = frame.mapInArrow(slow(partition, rows_before, 6), frame.schema)
    with pytest.raises(PySparkException) as raised:
        write(late, topic, kafka__transaction__timeout__ms=TIMEOUT_MS)
    assert "kafka.transaction.timeout.ms" in str(raised.value)
    assert committed(topic) == 0
    write(frame, topic)
    assert committed(topic) == 60_000
