"""Several topics in one store: by their names, and by a pattern that finds later ones."""

from __future__ import annotations

import re
import sqlite3
import threading
import uuid
from pathlib import Path
from typing import Any

import pytest

import drumlin
from drumlin.client.client import Client
from drumlin.serving import materializing
from rig.brokers.drumlin_server import DrumlinServer
from rig.waiting import wait_until


@pytest.fixture
def topics(client: Client) -> list[str]:
    prefix = f"many-{uuid.uuid4().hex[:8]}"
    names = [f"{prefix}.a", f"{prefix}.b"]
    for each in names:
        client.create_topic(each, 2)
        client.append([{"key": "k", "value": each}], each)
    return names


def rows(path: Path, table: str) -> dict[Any, Any]:
    database = sqlite3.connect(path, timeout=60)
    try:
        return dict(database.execute(f'SELECT key, value FROM "{table}"').fetchall())
    except sqlite3.OperationalError:
        return {}
    finally:
        database.close()


def test_by_their_names(client: Client, topics: list[str], tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    to = f"sqlite:///{path}"
    done = drumlin.materialize(client, topics, to, group="g", decode="utf8", until_end=True)
    assert (done.records, done.lag, done.partitions) == (2, 0, 4)
    for each in topics:
        assert rows(path, each) == {"k": each}
    with pytest.raises(ValueError, match=r"several topics need {topic} in the name: 'users'"):
        drumlin.materialize(client, topics, f"{to}?table=users", group="g", until_end=True)
    with pytest.raises(ValueError, match="no topics"):
        drumlin.materialize(client, [], to, group="g", until_end=True)
    with pytest.raises(drumlin.UnknownTopic, match="no-such-topic"):
        drumlin.materialize(client, [topics[0], "no-such-topic"], to, group="g", decode="utf8")


def test_by_a_pattern(
    client: Client,
    topics: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    serving_broker: DrumlinServer,
) -> None:
    """Topics come and go, and come again with the same name."""
    monkeypatch.setattr(materializing, "_FIND_TOPICS_MS", 100)
    monkeypatch.setattr(materializing, "_LOOK_S", 0.1)
    path, stop, failures = tmp_path / "app.db", threading.Event(), []
    pattern = re.compile(re.escape(topics[0][:-1]) + ".*")

    def keep() -> None:
        try:
            to = f"sqlite:///{path}?table=of_{{topic}}"
            # What is asked of a topic that is gone is asked for that long.
            with drumlin.connect(serving_broker.address, request_timeout_ms=2000) as own:
                drumlin.materialize(own, pattern, to, group=topics[0], decode="utf8", stop=stop)
        except BaseException as error:
            failures.append(error)

    def await_rows(topic: str, expected: dict[str, str]) -> None:
        wait_until(lambda: failures or rows(path, f"of_{topic}") == expected, f"{topic}'s rows")
        assert not failures

    thread = threading.Thread(target=keep)
    thread.start()
    for each in topics:
        await_rows(each, {"k": each})
    later = f"{topics[0][:-1]}c"
    client.create_topic(later, 1)
    client.append([{"key": "k", "value": "later"}], later)
    await_rows(later, {"k": "later"})
    for value in ("again", "and again"):
        client.delete_topic(topics[0])
        client.append([{"key": "k2", "value": value}], later)
        await_rows(later, {"k": "later", "k2": value})
        client.create_topic(topics[0], 1)
        client.append([{"key": "new", "value": value}], topics[0])
        await_rows(topics[0], {"new": value})
    stop.set()
    thread.join(60)
    assert not failures
