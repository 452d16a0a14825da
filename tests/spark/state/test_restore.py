"""Restoring by a Spark job: against a dict, run twice, and beside the client's own restore."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import drumlin
from drumlin.client.client import Client
from drumlin.client.errors import NotRestored
from drumlin.spark import restore
from drumlin.spark.frames import restore_sink
from drumlin.spark.options.option_values import OptionError
from drumlin.spark.writing.foreach_batch import save
from spark.state.history import PARTITIONS, History
from spark.state.restored_topics import TINY, committed, log_of, middle, state_in
from spark.topics import Topic

pytestmark = pytest.mark.spark


@pytest.mark.deep
def test_a_state_is_written_once(
    spark: SparkSession, history: History, client: Client, target: str
) -> None:
    source, address = history.topic.name, history.topic.address
    ends = middle(history)
    wanted = history.state(ends)
    configs = {"min.cleanable.dirty.ratio": "0.25", "max.message.bytes": "3000"}

    def again() -> drumlin.RestoreReport:
        return restore(spark, source, target, bootstrap=address, at=ends, configs=configs, **TINY)

    report = again()
    assert (report.end_offsets, report.was_there) == (ends, False)
    assert report.record_count == len(wanted)
    assert state_in(client, target) == wanted
    times = {(e.partition, e.key): e.timestamp_ms for e in history.between({}, ends)}
    for row in committed(client, target):
        assert row["timestamp"].timestamp() * 1000 == times[row["partition"], row["key"]]
    assert client.topic_configs(target)["min.cleanable.dirty.ratio"].value == "0.25"
    assert again().was_there
    assert client.restore(source, target, at=ends).was_there
    with pytest.raises(NotRestored, match="restored already, from the state of"):
        restore(spark, source, target, bootstrap=address)
    assert state_in(client, target) == wanted


@pytest.mark.deep
def test_records_in_their_order(
    spark: SparkSession, history: History, client: Client, target: str
) -> None:
    source, address = history.topic.name, history.topic.address
    wanted = log_of(client, source, middle(history))
    report = restore(
        spark, source, target, bootstrap=address, at=middle(history), records=True, **TINY
    )
    assert report.record_count == len(wanted)
    assert committed(client, target) == wanted
    assert client.restore(source, target, at=middle(history), records=True).was_there


def test_the_first_records_with_headers(
    spark: SparkSession, client: Client, history: History, target: str
) -> None:
    topic = Topic(history.topic.address, 2).create()
    topic.write(
        (
            n % 3 % 2,
            b"%d" % n,
            None if n % 5 == 0 else b"v",
            1_700_000_000_000 + n,
            [("n", b"%d" % n), ("x", None)],
        )
        for n in range(300)
    )
    at = {0: 150, 1: 40}
    report = restore(
        spark, topic.name, target, bootstrap=topic.address, at=at, first=60, batchBytes=500
    )
    assert report.end_offsets == {0: 60, 1: 40}
    wanted = log_of(client, topic.name, {0: 60, 1: 40})
    assert len(wanted) == report.record_count == 100
    assert committed(client, target) == wanted
    assert client.restore(topic.name, target, at=at, first=60).was_there
    client.delete_topic(target)
    assert client.restore(topic.name, target, at=at, first=60).record_count == 100
    again = restore(spark, topic.name, target, bootstrap=topic.address, at=at, first=60)
    assert again.was_there


def test_what_is_not_ours_is_left_alone(
    spark: SparkSession, history: History, client: Client, target: str
) -> None:
    source, address = history.topic.name, history.topic.address
    client.create_topic(target, PARTITIONS)
    client.append({"value": [b"mine"]}, target)
    with pytest.raises(NotRestored, match="records that no restore has written"):
        restore(spark, source, target, bootstrap=address)
    assert [row["value"] for row in committed(client, target)] == [b"mine"]
    with pytest.raises(OptionError, match="'writeId' does not go with a restore"):
        restore(spark, source, target, bootstrap=address, writeId="x")


def test_a_topic_that_is_deleted_meanwhile(
    spark: SparkSession,
    history: History,
    client: Client,
    target: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source, address, ends = history.topic.name, history.topic.address, middle(history)

    def saved_and_deleted(rows: DataFrame, options: Mapping[str, str]) -> None:
        save(rows, options)
        client.delete_topic(target)
        client.create_topic(target, PARTITIONS)

    monkeypatch.setattr(restore_sink, "save", saved_and_deleted)
    with pytest.raises(NotRestored, match="was deleted while it was restored"):
        restore(spark, source, target, bootstrap=address, at=ends)
    monkeypatch.undo()
    assert not restore(spark, source, target, bootstrap=address, at=ends).was_there
    assert state_in(client, target) == history.state(ends)


@pytest.mark.deep
def test_what_the_log_does_not_tell_exactly_is_written_if_that_will_do(
    spark: SparkSession, history: History, client: Client, target: str
) -> None:
    source, address = history.topic.name, history.topic.address
    cleaned = {each: end // 2 for each, end in history.compacted_end.items()}

    def of(**more: Any) -> drumlin.RestoreReport:
        given = {"bootstrap": address, "at": cleaned, "records": True, **TINY, **more}
        return restore(spark, source, target, **given)

    with pytest.raises(PySparkException, match="can't be read exactly"):
        of()
    assert committed(client, target) == []
    wanted = log_of(client, source, cleaned)
    assert of(allowInexact=True).record_count == len(wanted)
    assert committed(client, target) == wanted
