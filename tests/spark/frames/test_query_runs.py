"""Runs of a query that were killed, or overtaken: no change is lost, none rests on an old view."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping

import pytest
from pyspark.sql import DataFrame, SparkSession

import drumlin
from drumlin.client.client import Client
from drumlin.spark import QueryChanges, QueryOvertaken
from drumlin.spark.frames import query_sink
from drumlin.spark.writing.entry import commit_batch
from drumlin.spark.writing.foreach_batch import save
from spark.frames.killed_queries import SETTINGS, decided, lost, written
from spark.frames.query_topics import (
    Table,
    captured,
    key_of,
    log_of,
    records_of,
    value_of,
    values_in,
)
from spark.topics import Topic

pytestmark = [pytest.mark.spark, pytest.mark.deep]

NewTopic = Callable[[int], Topic]
OLD: Table = {1: (0, "old"), 2: (0, "same")}
NEW: Table = {1: (1, "new"), 2: (0, "same")}


@pytest.fixture
def client(address: str) -> Iterator[Client]:
    with drumlin.connect(address) as client:
        yield client


def test_what_a_killed_run_has_decided_is_seen(
    spark: SparkSession, new_topic: NewTopic, client: Client
) -> None:
    topic = new_topic(2)
    captured(spark, OLD, topic)
    decided(client, written(client, topic.name, 1, "killed", {1: NEW[1]}))
    # The row is back to what it was: it is no change unless the killed run's is seen.
    assert captured(spark, OLD, topic) == QueryChanges(updated=1)
    assert values_in(topic) == records_of(OLD)
    values = [value for _, key, value in log_of(topic) if key == key_of(1)]
    assert values == [value_of(1, *each[1]) for each in (OLD, NEW, OLD)]


def test_what_a_killed_run_had_not_decided_is_gone(
    spark: SparkSession, new_topic: NewTopic, client: Client
) -> None:
    topic = new_topic(2)
    written(client, topic.name, 0, "killed", NEW)
    assert captured(spark, OLD, topic) == QueryChanges(inserted=2)
    written(client, topic.name, 1, "killed", NEW)
    assert captured(spark, OLD, topic) == QueryChanges()
    assert [value for *_, value in log_of(topic)] == list(records_of(OLD).values())


def test_what_was_decided_and_has_timed_out_is_written_again(
    spark: SparkSession, new_topic: NewTopic, client: Client
) -> None:
    topic = new_topic(2)
    captured(spark, OLD, topic)
    message = written(client, topic.name, 1, "killed", {1: NEW[1]})
    again = written(client, topic.name, 1, "slow", {1: NEW[1]})
    decided(client, message)
    lost(client, message)
    assert captured(spark, OLD, topic) == QueryChanges()
    # A run that is still there with the same rows must not take them for written.
    with pytest.raises(RuntimeError, match="batch 2 is decided"):
        commit_batch(client, SETTINGS, [again], 1)
    assert values_in(topic) == records_of(OLD)
    assert captured(spark, NEW, topic) == QueryChanges(updated=1)
    assert values_in(topic) == records_of(NEW)


@pytest.mark.parametrize("batch", [0, 1])
def test_a_run_that_another_one_has_overtaken(
    spark: SparkSession, new_topic: NewTopic, monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    topic = new_topic(2)
    if batch:
        captured(spark, OLD, topic)

    def save_after_another(rows: DataFrame, options: Mapping[str, str]) -> None:
        monkeypatch.setattr(query_sink, "save", save)
        captured(spark, NEW, topic)
        save(rows, options)

    monkeypatch.setattr(query_sink, "save", save_after_another)
    with pytest.raises(QueryOvertaken, match="has written changes of its own"):
        captured(spark, {3: (3, "mine")}, topic)
    assert values_in(topic) == records_of(NEW)
    assert captured(spark, OLD, topic) == QueryChanges(updated=1)


@pytest.mark.parametrize("is_changed", [False, True])
def test_a_run_that_another_one_has_ended(
    spark: SparkSession,
    new_topic: NewTopic,
    client: Client,
    monkeypatch: pytest.MonkeyPatch,
    is_changed: bool,
) -> None:
    topic = new_topic(2)
    captured(spark, OLD, topic)
    changed = NEW if is_changed else OLD

    def save_while_another_runs(rows: DataFrame, options: Mapping[str, str]) -> None:
        del rows
        monkeypatch.setattr(query_sink, "save", save)
        _, batch, run = json.loads(options["numberedbatch"])
        mine = written(client, topic.name, batch, run, {3: (3, "mine")})
        captured(spark, changed, topic)
        commit_batch(client, SETTINGS, [mine], batch)

    monkeypatch.setattr(query_sink, "save", save_while_another_runs)
    why = "has written changes" if is_changed else "has begun, and has fenced this one"
    with pytest.raises(QueryOvertaken, match=why):
        captured(spark, {3: (3, "mine")}, topic)
    assert values_in(topic) == records_of(changed)
