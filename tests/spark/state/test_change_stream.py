"""A stream of changes: the same as between two moments, however often its query dies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from drumlin.spark import changes
from drumlin.spark.options.option_values import OptionError
from rig.waiting import wait_until
from spark.state.test_changes import Change, listed
from spark.topics import Topic

pytestmark = pytest.mark.spark

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKS_DB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


@pytest.fixture(autouse=True)
def _state_in_rocks_db(spark: SparkSession) -> Iterator[None]:
    before = spark.conf.get(PROVIDER)
    spark.conf.set(PROVIDER, ROCKS_DB)
    yield
    spark.conf.set(PROVIDER, before)


class Feed:
    """A query that writes the changes of a topic into files."""

    def __init__(self, spark: SparkSession, topic: Topic, folder: Path, **options: Any) -> None:
        self._spark = spark
        self._topic = topic
        self._options = options
        self._output, self.checkpoint = folder / "output", folder / "checkpoint"

    def start(self, **trigger: Any) -> StreamingQuery:
        topic = self._topic
        frame = changes(
            self._spark, topic.name, bootstrap=topic.address, stream=True, **self._options
        )
        writer = frame.writeStream.format("parquet").option("path", str(self._output))
        writer = writer.option("checkpointLocation", str(self.checkpoint))
        return writer.trigger(**trigger).start()

    def run(self) -> None:
        query = self.start(availableNow=True)
        query.awaitTermination()
        assert query.exception() is None

    def written(self) -> list[Change]:
        return listed(self._spark.read.parquet(str(self._output)))

    def has_committed(self, batches: int) -> bool:
        return len(list((self.checkpoint / "commits").glob("[0-9]*"))) >= batches


def put(topic: Topic, first: int, count: int) -> None:
    """Some keys, each put and deleted again and again; and records without a key."""
    topic.write(
        (
            number % topic.partitions,
            None if number % 11 == 0 else b"key-%d" % (number % 6),
            None if number % 5 == 0 else b"value-%d" % number,
            1_700_000_000_000 + number,
            None,
        )
        for number in range(first, first + count)
    )


@pytest.mark.deep
def test_across_restarts(spark: SparkSession, address: str, tmp_path: Path) -> None:
    topic = Topic(address, 2).create()
    feed = Feed(spark, topic, tmp_path, maxOffsetsPerTrigger=60)
    put(topic, 0, 100)
    feed.run()  # two batches
    put(topic, 100, 100)
    # The last batch is run again, as if the query had died before it was committed.
    last = max((feed.checkpoint / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    last.unlink()
    (last.parent / f".{last.name}.crc").unlink(missing_ok=True)
    feed.run()
    expected = listed(changes(spark, topic.name, "earliest", bootstrap=address))
    assert feed.written() == expected
    assert {each[2] for each in expected} == {"insert", "update", "delete"}


@pytest.mark.deep
def test_from_a_moment_on(spark: SparkSession, address: str, tmp_path: Path) -> None:
    topic = Topic(address, 2).create()
    put(topic, 0, 60)
    since = {0: 20, 1: 25}
    Feed(spark, topic, tmp_path, since=since).run()
    put(topic, 60, 40)
    feed = Feed(spark, topic, tmp_path)  # it goes on from its checkpoint
    feed.run()
    expected = listed(changes(spark, topic.name, since, bootstrap=address))
    assert feed.written() == expected


@pytest.mark.deep
def test_a_query_goes_on_though_its_beginning_is_deleted(
    spark: SparkSession, address: str, tmp_path: Path
) -> None:
    topic = Topic(address, 1).create()
    put(topic, 0, 60)
    feed = Feed(spark, topic, tmp_path / "old", since={0: 20})
    feed.run()
    expected = feed.written()
    topic.delete_records_before(0, 40)
    feed.run()
    assert feed.written() == expected
    with pytest.raises(PySparkException, match="records before offset 40 are deleted"):
        # The log still holds the changes from there on, but not the values that they are based on.
        Feed(spark, topic, tmp_path / "new", since={0: 50}).run()


@pytest.mark.deep
def test_a_query_that_is_stopped_anywhere(
    spark: SparkSession, address: str, tmp_path: Path
) -> None:
    topic = Topic(address, 2).create()
    feed = Feed(spark, topic, tmp_path, maxOffsetsPerTrigger=30)
    for number in range(4):
        put(topic, 100 * number, 100)
        query = feed.start(processingTime="0 seconds")
        wait_until(lambda: feed.has_committed(2 * number + 1), "some batches", 60)  # noqa: B023
        query.stop()
    feed.run()
    expected = listed(changes(spark, topic.name, "earliest", bootstrap=address))
    assert feed.written() == expected


@pytest.mark.deep
def test_a_topic_that_was_created_again_is_another_one(
    spark: SparkSession, address: str, tmp_path: Path
) -> None:
    """It has grown beyond the old position: its first records would be passed over."""
    topic = Topic(address, 1).create()
    feed = Feed(spark, topic, tmp_path)
    put(topic, 0, 40)
    feed.run()
    expected = feed.written()
    topic.delete()
    topic.create()
    put(topic, 0, 90)
    with pytest.raises(PySparkException, match=r"created again: .* .of topic id .*, now "):
        feed.run()
    assert feed.written() == expected


def test_what_is_refused(spark: SparkSession, address: str) -> None:
    with pytest.raises(OptionError, match="'startingOffsets' does not go with"):
        changes(spark, "t", bootstrap=address, stream=True, startingOffsets="latest")
    with pytest.raises(OptionError, match="'until' does not go with a stream"):
        changes(spark, "t", "earliest", "latest", bootstrap=address, stream=True)
    spark.conf.unset(PROVIDER)
    with pytest.raises(OptionError, match="keep their state in RocksDB: set spark"):
        changes(spark, "t", bootstrap=address, stream=True)
