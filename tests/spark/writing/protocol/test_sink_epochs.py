"""What a commit leaves to the next one of its process, when things have happened in between.

On real brokers; `sink_twin` has the protocol's side of it.
"""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

import drumlin
from drumlin.client.client import Client
from drumlin.spark.writing import driver_epochs
from drumlin.spark.writing.entry import commit_batch
from drumlin.spark.writing.protocol.messages import SinkSettings, SourceOffsets, TaskIdentity
from drumlin.spark.writing.protocol.sink_errors import Superseded
from rig.brokers.drumlin_server import DrumlinServer
from rig.waiting import wait_until
from spark.writing.protocol.test_sink_protocol import (
    SETTINGS,
    await_rows,
    client,
    driver_epoch,
    identity,
    sink,
    topic,
    write,
)

__all__ = ["client", "sink", "topic"]  # fixtures


def commit(
    client: Client, topic: str, who: TaskIdentity, settings: SinkSettings = SETTINGS
) -> None:
    message = write(client, topic, who, str(who.batch))
    assert commit_batch(client, settings, [message], who.batch).is_marked_done


def test_the_broker_was_started_again(tmp_path: Path) -> None:
    server = DrumlinServer(tmp_path)
    try:
        server.start()
        with drumlin.connect(server.address) as client:
            client.create_topic("t", 1)
            commit(client, "t", identity("s", 0, 0))
            epoch = driver_epoch(client, "s")
            server.restart()
            commit(client, "t", identity("s", 1, 0))
            assert driver_epoch(client, "s") == epoch
            await_rows(client, "t", "0", "1")
    finally:
        server.close()


def test_another_query_does_not_get_it(client: Client, topic: str, sink: str) -> None:
    commit(client, topic, identity(sink, 0, 0))
    other = TaskIdentity(sink, "another query", 1, "run9", 0)
    with pytest.raises(Superseded, match="belongs to query"):
        commit(client, topic, other)
    commit(client, topic, identity(sink, 1, 0))
    await_rows(client, topic, "0", "1")


def test_offsets_are_committed_with_each_decision(client: Client, topic: str, sink: str) -> None:
    for batch in range(3):
        message = write(client, topic, identity(sink, batch, 0), str(batch))
        source = SourceOffsets(f"{sink}-readers", {(topic, 0): batch})
        commit_batch(client, SETTINGS, [message], batch, source)
        found = client.committed_offsets(f"{sink}-readers", require_stable=True)
        assert found[topic, 0].offset == batch


def test_the_decision_topic_was_deleted_and_is_made_anew(
    client: Client, topic: str, sink: str
) -> None:
    settings = SinkSettings(f"{sink}-decisions")
    commit(client, topic, identity(sink, 0, 0), settings)
    commit(client, topic, identity(sink, 1, 0), settings)
    client.delete_topic(settings.decision_topic)
    group = f"drumlin.{sink}"
    wait_until(lambda: not client.committed_offsets(group), "its offsets to be gone")
    commit(client, topic, identity(sink, 2, 0), settings)
    policy = client.topic_configs(settings.decision_topic)["cleanup.policy"].value
    assert policy == "compact", "it is none that the broker has made by itself"
    with drumlin.connect(client.bootstrap) as other:
        commit(other, topic, identity(sink, 3, 0), settings)
    await_rows(client, topic, *"0123")
    client.delete_topic(settings.decision_topic)


def test_what_was_not_used_for_long_is_closed(
    client: Client, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_epochs, "_SINKS_MAX", 1)
    first, second = (f"query-{uuid.uuid4().hex[:12]}" for _ in range(2))
    commit(client, topic, identity(first, 0, 0))
    held = driver_epochs.take(client, first, SETTINGS.decision_topic)
    assert held is not None
    driver_epochs.leave(client, first, SETTINGS.decision_topic, held)
    commit(client, topic, identity(second, 0, 0))
    assert held.transaction.state == "aborted"
    commit(client, topic, identity(first, 1, 0))
    await_rows(client, topic, "0", "0", "1")
