"""A topic that is made again with the same name, whose keys are in other partitions, or fewer."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pyarrow.dataset as ds
import pytest
import redis

import drumlin
from drumlin.client.client import Client
from rig.servers.postgres import running_postgres
from rig.servers.redis_server import PROGRAM, WHY_NOT, RedisServer
from rig.servers.search.opensearch import running_opensearch

Rows = Callable[[], dict[bytes, bytes]]


def _sqlite(stack: ExitStack, folder: Path) -> tuple[str, Rows]:
    database = stack.enter_context(sqlite3.connect(folder / "app.db"))
    return (
        f"sqlite:///{folder}/app.db?table=kept",
        lambda: dict(database.execute("SELECT key, value FROM kept")),
    )


def _postgres(stack: ExitStack, folder: Path) -> tuple[str, Rows]:
    server = stack.enter_context(running_postgres())
    database = stack.enter_context(psycopg.connect(server.url(), autocommit=True))
    return f"{server.url()}?table=kept", lambda: dict(
        database.execute("SELECT key, value FROM kept").fetchall()
    )


def _redis(stack: ExitStack, folder: Path) -> tuple[str, Rows]:
    if PROGRAM is None:
        pytest.skip(WHY_NOT)
    server = RedisServer(folder)
    stack.callback(server.close)
    server.start()
    store: Any = stack.enter_context(redis.Redis(port=server.port, protocol=2))

    def rows() -> dict[bytes, bytes]:
        return {name[1:]: store.get(name) for name in store.scan_iter(":*")}

    return f"{server.url}?prefix=:", rows


def _parquet(stack: ExitStack, folder: Path) -> tuple[str, Rows]:
    def rows() -> dict[bytes, bytes]:
        newest = max((folder / "kept").glob("[0-9]*"))
        found = ds.dataset(newest, format="parquet").to_table().to_pylist()
        assert len({each["key"] for each in found}) == len(found)
        return {each["key"]: each["value"] for each in found}

    return f"parquet:///{folder}?table=kept", rows


def _opensearch(stack: ExitStack, folder: Path) -> tuple[str, Rows]:
    server = stack.enter_context(running_opensearch(folder))

    def rows() -> dict[bytes, bytes]:
        found = server.documents("kept")
        return {name.encode(): each["drumlin"]["value"].encode() for name, each in found.items()}

    return f"{server.url}?index=kept", rows


@pytest.fixture(
    params=[
        _sqlite,
        _redis,
        _parquet,
        pytest.param(_postgres, marks=pytest.mark.deep),
        pytest.param(_opensearch, marks=pytest.mark.deep),
    ]
)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, Rows]]:
    with ExitStack() as stack:
        yield request.param(stack, tmp_path)


def append(client: Client, topic: str, partition: int, **values: str) -> None:
    table = [{"key": key, "value": value} for key, value in values.items()]
    client.append(table, topic, partition=lambda data, _: [partition] * len(data))


@pytest.mark.parametrize("partitions", [1, 3])
def test_nothing_is_left_of_the_former_topic(
    client: Client, topic: str, store: tuple[str, Rows], partitions: int
) -> None:
    to, rows = store

    def keep() -> None:
        assert drumlin.materialize(client, topic, to, group=topic, until_end=True).lag == 0

    append(client, topic, 0, zero="old")
    append(client, topic, 1, one="old")
    append(client, topic, 2, moved="old", two="old")
    keep()
    assert json.dumps(sorted(map(bytes.decode, rows()))) == '["moved", "one", "two", "zero"]'
    client.delete_topic(topic)
    client.create_topic(topic, partitions)
    append(client, topic, 0, moved="new", a="new")
    append(client, topic, partitions - 1, b="new")
    keep()
    assert rows() == {b"moved": b"new", b"a": b"new", b"b": b"new"}
    append(client, topic, partitions - 1, b="newer")
    keep()
    assert rows() == {b"moved": b"new", b"a": b"new", b"b": b"newer"}
