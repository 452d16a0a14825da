"""Captures of a MariaDB, as users run them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

from capture.captured_mariadb import CapturedMariadb
from rig.servers.mariadb import Mariadb, running_mariadb

_numbers = count(1)


@pytest.fixture(scope="module")
def server() -> Iterator[Mariadb]:
    with running_mariadb() as found:
        yield found


@pytest.fixture
def captured(server: Mariadb, drumlin_address: str) -> Iterator[CapturedMariadb]:
    name = f"m{next(_numbers)}"
    with server.connect() as connection:
        connection.cursor().execute(f"CREATE DATABASE {name}")
    with CapturedMariadb(server, drumlin_address, name) as found:
        yield found


def test_snapshot_then_stream_then_stopped_and_started(captured: CapturedMariadb) -> None:
    captured.run(
        "CREATE TABLE item (id INT PRIMARY KEY, name VARCHAR(20))",
        "INSERT INTO item VALUES (1, 'one'), (2, 'two'), (3, 'three')",
    )
    captured.start_here()
    captured.await_all()
    captured.check_equal("item")
    captured.run(
        "INSERT INTO item VALUES (4, 'four'), (5, NULL)",
        "UPDATE item SET name = 'zwei' WHERE id = 2",
        "UPDATE item SET id = 30 WHERE id = 3",
        "DELETE FROM item WHERE id = 1",
    )
    captured.await_all()
    captured.check_equal("item")
    assert captured.stop() == 0
    before = captured.records("item")
    captured.start_here()
    captured.run("INSERT INTO item VALUES (6, 'six')")
    captured.await_all()
    captured.check_equal("item")
    after = captured.records("item")
    assert [each for each in after if each in before] == before
    assert len(after) == len(before) + 1
    keys = [(key, value) for _, _, key, value in before]
    assert ('{"id":3}', None) in keys and ('{"id":30}', '{"id":30,"name":"three"}') in keys
