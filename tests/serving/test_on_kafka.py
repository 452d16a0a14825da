"""The same from an Apache Kafka, with groups, transactions and topics that are its own."""

from __future__ import annotations

import sqlite3
import uuid
from pathlib import Path

import pytest

import drumlin

pytestmark = [pytest.mark.kafka, pytest.mark.deep]


def test_a_topic_of_apache_kafka(kafka_address: str, tmp_path: Path) -> None:
    to = f"sqlite:///{tmp_path}/app.db?table=kept"
    topic = f"kept-{uuid.uuid4().hex[:12]}"
    model: dict[bytes, bytes] = {}
    with drumlin.connect(kafka_address, request_timeout_ms=20_000) as client:

        def write(number: int) -> None:
            rows = {b"k%d" % key: b"%d" % number for key in range(number, 3000, number + 1)}
            client.append([{"key": k, "value": v} for k, v in rows.items()], topic)
            with client.transaction(topic) as transaction:
                transaction.append([{"key": b"k%d" % number, "value": b"never"}], topic)
                transaction.abort()
            with client.transaction(topic) as transaction:
                transaction.append([{"key": b"k%d" % number, "value": None}], topic)
            model.update(rows)
            model.pop(b"k%d" % number, None)

        for again in range(2):
            client.create_topic(topic, 3, configs={"cleanup.policy": "compact"})
            for number in range(3):
                write(number)
                done = drumlin.materialize(client, topic, to, group=topic, until_end=True)
                assert done.lag == 0
                with sqlite3.connect(tmp_path / "app.db") as database:
                    assert dict(database.execute("SELECT key, value FROM kept")) == model
            ends = {(topic, each): end for each, end in client.offsets(topic).items()}
            committed = client.committed_offsets(topic)
            assert {place: each.offset for place, each in committed.items()} == ends
            if not again:
                client.delete_topic(topic)
                model.clear()
