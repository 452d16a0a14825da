"""The sink of a query: what it settles, and how it tells two runs apart; without Spark."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

import drumlin
from drumlin.client.client import Client
from drumlin.spark import QueryOvertaken
from drumlin.spark.frames import query_sink
from drumlin.spark.frames.query_sink import QuerySink
from drumlin.spark.writing.entry import commit_batch
from drumlin.spark.writing.performer import Performer
from drumlin.spark.writing.protocol.requests import CommitDriver
from drumlin.spark.writing.protocol.sink_errors import RequestFailed
from spark.frames.killed_queries import SETTINGS, decided, lost, written
from spark.frames.query_topics import Table, records_of, values_in
from spark.topics import Topic

NEW: Table = {1: (1, "new")}
OTHER: Table = {2: (2, "other")}


@pytest.fixture(
    params=["drumlin", pytest.param("kafka", marks=[pytest.mark.kafka, pytest.mark.deep])]
)
def topic(request: pytest.FixtureRequest) -> Topic:
    return Topic(request.getfixturevalue(f"{request.param}_address"), 2).create()


@pytest.fixture
def client(topic: Topic) -> Iterator[Client]:
    with drumlin.connect(topic.address) as client:
        yield client


@pytest.fixture
def sink(client: Client, topic: Topic) -> QuerySink:
    topic_id = client.describe_topics([topic.name])[topic.name].topic_id
    return QuerySink(client, {"kafka.bootstrap.servers": topic.address}, topic.name, topic_id)


def test_what_a_killed_run_has_decided_is_there(
    client: Client, topic: Topic, sink: QuerySink
) -> None:
    assert sink.settle() == 0
    decided(client, written(client, topic.name, 0, "killed", NEW))
    assert values_in(topic) == {}
    assert sink.settle() == 1
    assert values_in(topic) == records_of(NEW)
    assert client.offsets(topic.name) == client.offsets(topic.name, isolation="read_committed")


def test_what_a_killed_run_had_not_decided_is_gone(
    client: Client, topic: Topic, sink: QuerySink
) -> None:
    message = written(client, topic.name, 0, "slow", NEW)
    assert sink.settle() == 0
    with pytest.raises(RuntimeError, match="this run of batch 0 was aborted meanwhile"):
        commit_batch(client, SETTINGS, [message], 0)
    assert sink.settle() == 0
    assert values_in(topic) == {}


def test_rows_that_were_lost_do_not_count_as_written(
    client: Client, topic: Topic, sink: QuerySink
) -> None:
    message = written(client, topic.name, 0, "killed", NEW)
    again = written(client, topic.name, 0, "slow", NEW)
    decided(client, message)
    lost(client, message)
    assert sink.settle() == 2
    with pytest.raises(RuntimeError, match="batch 1 is decided"):
        commit_batch(client, SETTINGS, [again], 0)
    commit_batch(client, SETTINGS, [written(client, topic.name, 2, "next", OTHER)], 2)
    assert values_in(topic) == records_of(OTHER)


def saved(client: Client, topic: Topic, table: Table, meanwhile: Callable[[], object]) -> Any:
    """In place of Spark's job: writes these rows, and decides them after something else."""

    def save(_: object, options: Mapping[str, str]) -> None:
        _, batch, run = json.loads(options["numberedbatch"])
        message = written(client, topic.name, batch, run, table)
        meanwhile()
        commit_batch(client, SETTINGS, [message], batch)

    return save


def test_a_run_that_another_one_has_ended(
    client: Client, topic: Topic, sink: QuerySink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(query_sink, "save", saved(client, topic, NEW, sink.settle))
    with pytest.raises(QueryOvertaken, match="has begun, and has fenced this one"):
        sink.write(None, sink.settle())  # type: ignore[arg-type]  # it is not read
    assert values_in(topic) == {}


def test_a_run_that_another_one_has_overtaken(
    client: Client, topic: Topic, sink: QuerySink, monkeypatch: pytest.MonkeyPatch
) -> None:
    def other() -> None:
        commit_batch(client, SETTINGS, [written(client, topic.name, 0, "other", OTHER)], 0)

    monkeypatch.setattr(query_sink, "save", saved(client, topic, NEW, other))
    with pytest.raises(QueryOvertaken, match="has written changes of its own"):
        sink.write(None, sink.settle())  # type: ignore[arg-type]
    assert values_in(topic) == records_of(OTHER)
    assert sink.settle() == 1


def test_a_run_that_has_decided_was_not_overtaken(
    client: Client, topic: Topic, sink: QuerySink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another one may have ended what it has left open; its changes are there all the same."""

    def save(_: object, options: Mapping[str, str]) -> None:
        _, batch, run = json.loads(options["numberedbatch"])
        message = written(client, topic.name, batch, run, NEW)
        written(client, topic.name, batch, run, NEW)  # of a twin of the task
        decided(client, message)
        sink.settle()
        raise RuntimeError("Spark gives up")

    monkeypatch.setattr(query_sink, "save", save)
    with pytest.raises(RuntimeError, match="Spark gives up"):
        sink.write(None, sink.settle())  # type: ignore[arg-type]
    assert values_in(topic) == records_of(NEW)


def test_two_runs_that_settle_at_once(
    client: Client, topic: Topic, sink: QuerySink, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(client, topic.name, 0, "killed", NEW)
    perform, others = Performer.perform, iter([sink.settle])

    def perform_after_another(self: Performer, request: Any) -> Any:
        if isinstance(request, CommitDriver):
            next(others, lambda: 0)()
        return perform(self, request)

    monkeypatch.setattr(Performer, "perform", perform_after_another)
    with pytest.raises(QueryOvertaken, match="has begun at the same moment"):
        sink.settle()
    assert sink.settle() == 0
    assert values_in(topic) == {}


def test_the_transaction_of_somebody_else_is_named(
    client: Client, topic: Topic, sink: QuerySink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(query_sink, "_STABLE_WITHIN_S", 0.1)
    with client.transaction(f"others-{uuid.uuid4().hex}") as transaction:
        transaction.append({"key": [b"k"], "value": [b"v"]}, topic.name)
        with pytest.raises(RequestFailed, match=f"{topic.name}': an open transaction hides"):
            sink.settle()
        transaction.abort()
    assert sink.settle() == 0
