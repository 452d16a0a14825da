"""While a partition is loaded, the others go on, progress is told, and it can be stopped."""

from __future__ import annotations

import functools
import sqlite3
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import drumlin
from drumlin.client.client import Client
from drumlin.client.read import reader
from drumlin.serving import materializing


@pytest.fixture
def reads_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    small = functools.partial(reader.ReadOptions, max_bytes_per_batch=2000)
    monkeypatch.setattr(reader, "ReadOptions", small)
    monkeypatch.setattr(materializing, "_PROGRESS_S", 0)


def append(client: Client, topic: str, partition: int, *names: str) -> None:
    table = [{"key": each, "value": "v" * 500} for each in names]
    client.append(table, topic, partition=lambda data, _: [partition] * len(data), batch_bytes=1000)


def rows(path: Path, topic: str) -> set[Any]:
    database = sqlite3.connect(path, timeout=60)
    try:
        return {key for (key,) in database.execute(f'SELECT key FROM "{topic}"')}
    finally:
        database.close()


@pytest.mark.usefixtures("reads_in_pieces")
def test_other_partitions_are_written_meanwhile(client: Client, topic: str, tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    to = f"sqlite:///{path}"
    append(client, topic, 1, "old")
    drumlin.materialize(client, topic, to, group=topic, decode="utf8", until_end=True)
    many = [f"k{number}" for number in range(300)]
    append(client, topic, 0, *many)
    with sqlite3.connect(path) as database:
        database.execute("UPDATE drumlin_positions SET offset = NULL WHERE partition = 0")
    database.close()
    seen: list[set[Any]] = []
    told: list[drumlin.Progress] = []

    def look(progress: drumlin.Progress) -> None:
        seen.append(rows(path, topic))
        if progress.partitions:
            told.append(progress)
            if len(told) == 3:  # it loads by now
                append(client, topic, 1, "new")
            elif len(told) > 3 and "new" not in seen[-1]:
                time.sleep(0.2)  # the load waits for the record that is on its way

    drumlin.materialize(
        client, topic, to, group=topic, decode="utf8", until_end=True, on_progress=look
    )
    assert {"old", "new"} in seen  # and nothing of the one that is loaded
    assert rows(path, topic) == {"old", "new", *many}
    assert len(told) > 20


@pytest.mark.usefixtures("reads_in_pieces")
def test_it_is_stopped_while_it_loads(client: Client, topic: str, tmp_path: Path) -> None:
    append(client, topic, 0, *(f"k{number}" for number in range(300)))
    stop, told = threading.Event(), []

    def end(progress: drumlin.Progress) -> None:
        told.append(progress)
        if progress.partitions:
            stop.set()

    to = f"sqlite:///{tmp_path}/app.db"
    drumlin.materialize(client, topic, to, group=topic, on_progress=end, stop=stop)
    assert len(told) < 20
    assert rows(tmp_path / "app.db", topic) == set()
