"""Whatever is killed, and whenever: the topics become the tables, and nothing is there twice."""

from __future__ import annotations

import random
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest

from capture.captured import Captured
from capture.load import SCHEMA, TABLES, transact
from drumlin.capture.log.output import Output
from rig.brokers.drumlin_server import DrumlinServer, running_server
from rig.depth import seeds, so_many


@contextmanager
def load(captured: Captured, seed: int) -> Iterator[None]:
    """Transactions one after the other, in a thread, as long as the block runs."""
    stop = threading.Event()
    failures: list[BaseException] = []

    def work() -> None:
        source = random.Random(seed)
        try:
            while not stop.is_set():
                try:
                    with captured.connect() as connection:
                        while not stop.is_set():
                            transact(connection, source)
                            stop.wait(0.002)
                except (psycopg.OperationalError, psycopg.Rollback):  # the latter met the former
                    stop.wait(0.05)  # it is being restarted
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    assert not failures, failures


@pytest.mark.deep
@pytest.mark.parametrize("seed", seeds(1, 6))
def test_equal_after_kills(captured: Captured, seed: int) -> None:
    captured.run(*SCHEMA)
    source = random.Random(seed)
    with captured.connect() as connection:
        for _ in range(60):
            transact(connection, source)
    with load(captured, seed):
        for _ in range(so_many(2, 25)):
            captured.start()
            threading.Event().wait(source.uniform(0.3, 3.0))
            kind = source.random()
            if kind < 0.2:
                captured.server.restart()
            elif kind < 0.3:
                captured.server.kill()
                captured.server.start()
            elif kind < 0.5:
                captured.run(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE application_name = 'drumlin capture'"
                )
            if kind < 0.5:
                threading.Event().wait(source.uniform(0.3, 2.0))
            assert captured.process is None or captured.process.poll() is None, captured.said()
            captured.kill()
        captured.start()
        threading.Event().wait(1.0)
    captured.await_all()
    captured.check_equal(*TABLES)
    for table in TABLES:
        check_nothing_twice(captured, table)


def check_nothing_twice(captured: Captured, table: str) -> None:
    """A tombstone is of a key that is there."""
    present: dict[str, bool] = defaultdict(bool)
    for _, _, key, value in captured.records(table):
        assert value is not None or present[key], f"{table}: a second tombstone of {key}"
        present[key] = value is not None


def test_every_change_once(captured: Captured) -> None:
    """A counter that goes up by one with each transaction, in two tables."""
    captured.run(
        "CREATE TABLE one (id int PRIMARY KEY, n int)",
        "CREATE TABLE two (id int PRIMARY KEY, n int)",
        "INSERT INTO one VALUES (1, 0)",
        "INSERT INTO two VALUES (1, 0)",
    )
    captured.start()
    captured.await_all()
    source = random.Random(1)
    count = 0
    for _ in range(so_many(2, 20)):
        stop = threading.Timer(source.uniform(0.2, 1.5), captured.kill)
        stop.start()
        with captured.connect() as connection:
            while stop.is_alive():
                count += 1
                with connection.transaction():
                    connection.execute("UPDATE one SET n = n + 1")
                    connection.execute("UPDATE two SET n = n + 1")
        stop.join()
        captured.start()
    captured.await_all()
    expected = [f'{{"id":1,"n":{number}}}' for number in range(count + 1)]
    for table in ("one", "two"):
        assert [value for *_, value in captured.records(table)] == expected


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[DrumlinServer]:
    with running_server(tmp_path) as server:
        yield server


@pytest.fixture
def own_address(own_server: DrumlinServer) -> str:
    return own_server.address


@pytest.mark.deep
@pytest.mark.parametrize("address", ["own_address"], indirect=True)
def test_equal_after_the_broker_is_killed(captured: Captured, own_server: DrumlinServer) -> None:
    captured.run(*SCHEMA)
    source = random.Random(3)
    captured.start()
    captured.await_all()
    with load(captured, 3):
        for _ in range(so_many(3, 15)):
            threading.Event().wait(source.uniform(0.3, 3.0))
            own_server.kill()
            threading.Event().wait(source.uniform(0.0, 2.0))
            own_server.start()
    captured.await_all()
    captured.check_equal(*TABLES)
    for table in TABLES:
        check_nothing_twice(captured, table)


@pytest.mark.parametrize("number", [3, pytest.param(4, marks=pytest.mark.deep)])
def test_a_snapshot_is_interrupted(
    captured: Captured, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that are gone by the next one are gone in the topic, too."""
    stop, commits, commit = threading.Event(), count(2), Output.commit

    def committed(*arguments: Any) -> None:
        commit(*arguments)
        if next(commits) == number:
            stop.set()

    monkeypatch.setattr(Output, "commit", committed)
    captured.run(
        "CREATE TABLE many (id int PRIMARY KEY, text text)",
        "INSERT INTO many SELECT each, repeat('x', 1000) FROM generate_series(1, 15000) each",
    )
    captured.start_here(partitions=1, stop=stop)
    assert captured.ended() == 0
    written = len(captured.records("many"))
    assert 2999 < written < 14000
    assert captured.status().phase == "snapshot"
    captured.run("DELETE FROM many WHERE id < 3000", "UPDATE many SET text = 'y' WHERE id > 14000")
    captured.run("CREATE TABLE later (id int PRIMARY KEY)")  # not in the publication that is there
    captured.start_here(partitions=1)
    captured.await_all()
    captured.check_equal("many", "later")
    check_nothing_twice(captured, "many")
    # Each row once, and of those that are gone a tombstone more: what is there already stays.
    assert len(captured.records("many")) == 12001 + 2 * 2999
