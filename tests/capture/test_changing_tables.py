"""Tables that somebody alters while the slot is made, or before they are read."""

from __future__ import annotations

import threading

import psycopg
import pytest

import drumlin.capture
from capture.captured import Captured
from drumlin.capture.database import snapshot
from rig.waiting import wait_until


def _one(captured: Captured) -> None:
    captured.run(
        "CREATE TABLE item (id int PRIMARY KEY, name text)", "INSERT INTO item VALUES (1, 'one')"
    )
    drumlin.capture.setup(captured.url, name=captured.name)


def _await_slot(captured: Captured) -> None:
    """Until the slot is being made: it waits for the transactions that are open."""
    statement = f"SELECT 1 FROM pg_replication_slots WHERE slot_name = 'drumlin_{captured.name}'"
    wait_until(lambda: captured.rows(statement), "the slot")


def test_columns_that_come_while_the_slot_is_made(captured: Captured) -> None:
    _one(captured)
    with psycopg.connect(captured.url) as other:
        other.execute("ALTER TABLE item ADD price int DEFAULT 5")
        captured.start_here()
        _await_slot(captured)
        other.commit()
    captured.await_all()
    captured.check_equal("item")


def test_a_key_that_changes_while_the_slot_is_made(captured: Captured) -> None:
    _one(captured)
    with psycopg.connect(captured.url) as other:
        other.execute("ALTER TABLE item DROP CONSTRAINT item_pkey, ADD PRIMARY KEY (name)")
        captured.start_here()
        _await_slot(captured)
        other.commit()
    captured.await_all()
    assert captured.state("item") == {'{"name":"one"}': '{"id":1,"name":"one"}'}
    assert "was altered while the slot was created" in captured.said()


@pytest.mark.parametrize(
    "statement", ["ALTER TABLE item ALTER id TYPE bigint", "TRUNCATE item", "DROP TABLE item"]
)
def test_tables_that_are_rewritten_before_they_are_read(
    captured: Captured, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    """To a transaction that began before, a rewritten table is empty: PostgreSQL says so."""
    captured.run("CREATE TABLE other (id int PRIMARY KEY)")
    _one(captured)
    taken, rewritten = snapshot.take_over, threading.Event()

    def take_over(*arguments: object) -> object:
        if not rewritten.is_set():
            rewritten.set()
            captured.run(statement)
        return taken(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(snapshot, "take_over", take_over)
    captured.start_here()
    captured.await_all()
    if not statement.startswith("DROP"):
        captured.check_equal("item")
        assert captured.rows("SELECT * FROM item") or not captured.state("item")
    assert rewritten.is_set()


def test_a_stop_while_the_slot_is_made(captured: Captured) -> None:
    _one(captured)
    with psycopg.connect(captured.url) as other:
        other.execute("INSERT INTO item VALUES (2, 'two')")
        captured.start_here()
        _await_slot(captured)
        assert captured.stop() == 0
        other.commit()
    captured.start_here()
    captured.await_all()
    captured.check_equal("item")
