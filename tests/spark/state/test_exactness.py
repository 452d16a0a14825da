"""A state is exact or refused: when it is planned, and when a cleaner comes while it is read."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import drumlin
from drumlin import lowlevel
from drumlin.client.errors import StateNotExact
from drumlin.spark import changes, snapshot
from rig.data import compacted_topic
from rig.data.compacted_topic import CLEANED_S
from rig.waiting import wait_until
from spark.state.history import History
from spark.topics import Topic

pytestmark = pytest.mark.spark


@pytest.fixture
def topic(history: History) -> Topic:
    """Compacted soon after it is written to."""
    topic = Topic(history.topic.address, 1)
    compacted_topic.create(topic.address, topic.name, internal_segment_bytes="4000")
    return topic


def write_and_clean(topic: Topic, round_number: int) -> None:
    with drumlin.connect(topic.address) as client:
        before = lowlevel.exact_from(client, topic.name)[0]
        compacted_topic.produce(topic.address, topic.name, 4, first_round=4 * round_number)
        wait_until(
            lambda: lowlevel.exact_from(client, topic.name)[0] > before,
            "the cleaner to come",
            CLEANED_S,
        )


@pytest.mark.deep
def test_the_past_of_a_cleaned_log(spark: SparkSession, topic: Topic) -> None:
    write_and_clean(topic, 0)
    given = {"bootstrap": topic.address}
    # No cleaning is known at offset 3, so that all must be there; and it is not.
    with pytest.raises(PySparkException, match="offset 3 can't be read exactly: records are miss"):
        snapshot(spark, topic.name, at={0: 3}, **given).collect()
    with pytest.raises(PySparkException, match="offset 3 can't be read exactly: records are miss"):
        changes(spark, topic.name, {0: 3}, **given).collect()
    left = snapshot(spark, topic.name, at={0: 3}, allowInexact=True, **given)
    assert left.count() < 3
    with drumlin.connect(topic.address) as client:
        exact_from = lowlevel.exact_from(client, topic.name)
    assert snapshot(spark, topic.name, at=exact_from, **given).count() == 100
    assert changes(spark, topic.name, exact_from, **given).count() > 0


def test_a_cleaner_comes_meanwhile(spark: SparkSession, topic: Topic) -> None:
    write_and_clean(topic, 0)
    now = snapshot(spark, topic.name, bootstrap=topic.address)
    assert now.count() == 100
    write_and_clean(topic, 1)
    with pytest.raises(PySparkException, match="the cleaner has overtaken the reader"):
        now.count()


def test_the_past_of_deleted_records(spark: SparkSession, history: History) -> None:
    topic = Topic(history.topic.address, 1).create()
    topic.write([(0, b"key", b"%d" % number, 1_700_000_000_000, None) for number in range(4)])
    topic.delete_records_before(0, 2)
    with pytest.raises(StateNotExact, match="records before offset 2 are deleted"):
        snapshot(spark, topic.name, bootstrap=topic.address, at={0: 3})


@pytest.mark.deep
def test_a_topic_that_is_another_one_by_now(spark: SparkSession, address: str) -> None:
    """A DataFrame may be used long after it was made, and offsets are those of one topic."""
    topic = Topic(address, 1).create()
    topic.write([(0, b"key", b"old", 1_700_000_000_000, None)])
    given = {"bootstrap": address}
    made = [snapshot(spark, topic.name, **given), changes(spark, topic.name, {0: 0}, **given)]
    topic.delete()
    topic.create()
    topic.write([(0, b"key", b"new", 1_700_000_000_000, None)] * 3)
    for frame in made:
        with pytest.raises(PySparkException, match="deleted and created again since this state"):
            frame.collect()
