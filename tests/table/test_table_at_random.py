"""A table beside a dict: writers, transactions, tombstones, a cleaner that never rests, kills."""

from __future__ import annotations

import dataclasses
import random
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

import drumlin
from drumlin.client.client import Client
from drumlin.client.table import following
from rig.brokers.drumlin_server import DrumlinServer, running_server
from rig.data.compacted_topic import COMPACTED, await_clean

KEYS = 40
PARTITIONS = 3


class Writer:
    """Writes at random, and knows what a table must have then."""

    def __init__(self, client: Client, topic: str, seed: int) -> None:
        self.client = client
        self.topic = topic
        self.chance = random.Random(seed)
        self.model: dict[bytes, bytes] = {}
        self.ends: dict[int, int] = {}
        self.number = 0

    def step(self) -> None:
        rows = [self._row() for _ in range(self.chance.choice([1, 3, 50]))]
        ending = self.chance.random()
        if ending < 0.5:
            self._note(rows, self.client.append(rows, self.topic))
            return
        with self.client.transaction(f"of {self.topic}") as transaction:
            report = transaction.append(rows, self.topic)
            if ending < 0.7:
                transaction.abort()
        if ending >= 0.7:
            self._note(rows, report)

    def _row(self) -> dict[str, bytes | None]:
        self.number += 1
        value = None if self.chance.random() < 0.2 else b"%d" % self.number * 20
        return {"key": b"k%d" % self.chance.randrange(KEYS), "value": value}

    def _note(self, rows: list[dict[str, bytes | None]], report: drumlin.AppendReport) -> None:
        for row in rows:
            if row["value"] is None:
                self.model.pop(row["key"] or b"", None)
            else:
                self.model[row["key"] or b""] = row["value"]
        self.ends |= {place: each.end_offset for place, each in report.partitions.items()}


@pytest.mark.parametrize("seed", range(3))
def test_it_is_as_the_model_at_each_wait(client: Client, topic: str, seed: int) -> None:
    writer = Writer(client, topic, seed)
    told: dict[bytes, bytes | None] = {}

    def note(change: drumlin.Change) -> None:
        assert told.get(change.key) == change.old
        told[change.key] = change.new

    with (
        client.table(topic, on_change=note) as table,
        client.table(topic, memory_bytes=1) as on_disk,
    ):
        for _ in range(60):
            writer.step()
            for each in (table, on_disk):
                each.wait_until(writer.ends, timeout_ms=60_000)
                assert dict(each.items()) == writer.model
            assert {key: value for key, value in told.items() if value} == writer.model
        with client.table(topic) as late:
            assert dict(late.items()) == writer.model


def test_it_lags_while_the_cleaner_goes_on(
    table_broker: DrumlinServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was written and waited for is there, though the cleaner has removed it meanwhile."""
    small = dataclasses.replace(following._OPTIONS, max_bytes_per_batch=2000)
    monkeypatch.setattr(following, "_OPTIONS", small)
    topic = f"lagging-{uuid.uuid4().hex[:8]}"
    with drumlin.connect(table_broker.address) as client:
        lag(client, topic, table_broker.data)


def lag(client: Client, topic: str, data: Path) -> None:
    client.create_topic(topic, 1, configs=COMPACTED)
    may_go_on = threading.Event()

    def fill(name: str) -> None:
        for number in range(60):
            client.append([{"key": f"{name}{number}", "value": "v" * 1000}], topic)

    with client.table(topic, on_change=lambda _: may_go_on.wait(60)) as table:
        fill("a")
        report = client.append([{"key": "x", "value": "1"}], topic)
        fill("b")
        client.append([{"key": "x", "value": "2"}], topic)
        fill("c")
        await_clean(data, topic)
        left = client.read(
            topic, columns=["key", "offset"], start=report.partitions[0].first_offset
        )
        assert left.column("offset")[0].as_py() > report.partitions[0].first_offset
        may_go_on.set()
        table.wait_until(report, timeout_ms=60_000)
        assert table["x"] == b"2"


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[DrumlinServer]:
    with running_server(tmp_path, {"log.cleaner.backoff.ms": "10"}) as server:
        yield server


@pytest.mark.parametrize("kills", [1, pytest.param(12, marks=pytest.mark.deep)])
def test_the_broker_is_killed(mortal: DrumlinServer, kills: int) -> None:
    topic = f"killed-{uuid.uuid4().hex[:8]}"
    with drumlin.connect(mortal.address, request_timeout_ms=60_000) as client:
        client.create_topic(topic, PARTITIONS, configs=COMPACTED)
        writer = Writer(client, topic, 3)
        with client.table(topic) as table:
            for _ in range(kills):
                for _ in range(10):
                    writer.step()
                mortal.kill()
                before = dict(table.items())
                assert before.keys() <= {b"k%d" % number for number in range(KEYS)}
                mortal.start()
                writer.step()
                table.wait_until(writer.ends, timeout_ms=90_000)
                assert dict(table.items()) == writer.model
