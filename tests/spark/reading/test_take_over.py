"""One checkpoint, used by Spark's Kafka source and by ours in turn: the way to switch, and back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark.topics import Topic, rows

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

Both = tuple[str, str]


class Switching:
    """A query into Parquet files, whose source changes from run to run."""

    def __init__(self, spark: SparkSession, folder: Path, topic: Topic) -> None:
        self._spark = spark
        self._topic = topic
        self.checkpoint, self._output = folder / "checkpoint", folder / "output"

    def run(self, source: str, **options: object) -> None:
        given = self._topic.options(**{"maxOffsetsPerTrigger": 14, **options})
        stream = self._spark.readStream.format(source).options(**given).load()
        query = stream.writeStream.format("parquet").option("path", str(self._output))
        query = query.option("checkpointLocation", str(self.checkpoint))
        query.trigger(availableNow=True).start().awaitTermination()

    def forget_last_commit(self) -> None:
        """As if the query had died in its last batch."""
        commits = self.checkpoint / "commits"
        last = max(int(each.name) for each in commits.glob("[0-9]*"))
        (commits / str(last)).unlink()
        (commits / f".{last}.crc").unlink()

    def written(self) -> list[tuple[Any, ...]]:
        return rows(self._spark.read.parquet(str(self._output)))


@pytest.fixture
def topic(kafka_address: str) -> Topic:
    return Topic(kafka_address, 2).create()


@pytest.mark.deep
def test_a_checkpoint_goes_to_and_fro(
    spark: SparkSession, both_sources: Both, topic: Topic, tmp_path: Path
) -> None:
    query = Switching(spark, tmp_path, topic)
    for turn in range(4):
        topic.fill(20)
        query.run(both_sources[turn % 2], startingOffsets="earliest")
        assert query.written() == topic.expected()
        if turn == 1:
            topic.add_partitions(3)


@pytest.mark.deep
@pytest.mark.parametrize(
    "turns", [(0, 1), pytest.param((1, 0), marks=pytest.mark.deep)], ids=["to ours", "back"]
)
def test_a_batch_that_did_not_end_is_read_again_by_the_other(
    spark: SparkSession, both_sources: Both, topic: Topic, tmp_path: Path, turns: tuple[int, int]
) -> None:
    query = Switching(spark, tmp_path, topic)
    topic.fill(20)
    query.run(both_sources[turns[0]], startingOffsets="earliest")
    query.forget_last_commit()
    topic.fill(6)
    query.run(both_sources[turns[1]], startingOffsets="earliest")
    assert query.written() == topic.expected()


@pytest.mark.deep
def test_a_first_batch_that_did_not_end_needs_the_start_that_spark_wrote_down(
    spark: SparkSession, both_sources: Both, topic: Topic, tmp_path: Path
) -> None:
    query = Switching(spark, tmp_path, topic)
    topic.fill(10)
    query.run(both_sources[0], startingOffsets="latest")
    topic.fill(6)
    query.run(both_sources[0], startingOffsets="latest")
    # As if it had died in the very first batch with records: no batch was ever committed.
    query.forget_last_commit()
    start = (query.checkpoint / "sources" / "0" / "0").read_text().splitlines()[1]
    assert json.loads(start) == {topic.name: {"0": 5, "1": 5}}
    query.run(both_sources[1], startingOffsets=start)
    assert query.written() == [row for row in topic.expected() if row[1] >= 5]
