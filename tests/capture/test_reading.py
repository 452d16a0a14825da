"""Tables that are read while the stream goes on: added ones, and those to be read once more."""

from __future__ import annotations

import random
import threading
import time

import psycopg
import pytest

import drumlin.capture
from capture.captured import Captured
from capture.load import SCHEMA, TABLES, transact
from capture.test_killed import check_nothing_twice, load
from drumlin.capture.database import chunks
from drumlin.capture.database.chunks import Seen, parse_snapshot
from drumlin.capture.errors import CaptureRefused
from drumlin.capture.messages.lsn import end_of_records
from drumlin.capture.running import following, reading, supervised
from rig.depth import seeds, so_many
from rig.waiting import wait_until


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small pieces, and new tables found at once."""
    monkeypatch.setattr(reading, "_FIRST_ROWS", 7)
    monkeypatch.setattr(chunks, "_ROWS_MAX", 50)
    monkeypatch.setattr(following, "LOOK_S", 0.1)
    monkeypatch.setattr(supervised, "_FENCED_S", 0.1)


def _await_read(captured: Captured) -> None:
    wait_until(lambda: not captured.status().reading, "the tables to be read")
    captured.await_all()


def test_a_table_that_comes_while_it_runs(captured: Captured) -> None:
    captured.run("CREATE TABLE first (id int PRIMARY KEY)")
    captured.start_here()
    captured.await_all()
    captured.run(
        "CREATE TABLE later (a text, b int, n int, PRIMARY KEY (a, b))",
        "INSERT INTO later SELECT 'it''s \\ ' || i % 3, i, 0 FROM generate_series(1, 500) i",
        "CREATE TABLE keyless (n int)",
    )
    wait_until(lambda: "public.later: 500 rows read" in captured.said(), "the table")
    captured.run("UPDATE later SET n = 1 WHERE b < 10", "DELETE FROM later WHERE b > 400")
    captured.await_all()
    captured.check_equal("first", "later")
    assert "as it came later: table public.keyless has no key" in captured.said()
    assert len(captured.records("later")) == 500 + 9 + 100
    captured.stop()
    captured.start_here()
    captured.run("INSERT INTO later VALUES ('x', 1000, 1)")
    captured.await_all()
    captured.check_equal("later")
    assert captured.said().count("rows read") == 1


@pytest.mark.parametrize("look_s", [0.1, 60])
def test_a_table_that_its_owner_publishes(
    captured: Captured, monkeypatch: pytest.MonkeyPatch, look_s: float
) -> None:
    """It is found soon, and at its first change if that comes sooner; others hold nothing up."""
    monkeypatch.setattr(following, "LOOK_S", look_s)
    owner, user = captured.url, f"capturer_{captured.name}"
    captured.run(
        f"CREATE ROLE {user} LOGIN REPLICATION",
        f"ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO {user}",
        "CREATE TABLE first (id int PRIMARY KEY)",
    )
    drumlin.capture.setup(owner, name=captured.name)
    captured.url = captured.server.url(captured.name, user)
    captured.start_here()
    captured.url = owner
    captured.await_all()
    captured.run('CREATE TABLE "no topic" (id int PRIMARY KEY)', "CREATE TABLE later (LIKE first)")
    captured.run("ALTER TABLE later ADD PRIMARY KEY (id)", "INSERT INTO later VALUES (1)")
    statement = f'ALTER PUBLICATION drumlin_{captured.name} ADD TABLE ONLY "public"."later"'
    if look_s < 1:
        wait_until(lambda: "may not publish table public.later" in captured.said(), "the reason")
    captured.run(statement, *(["INSERT INTO later VALUES (2)"] if look_s > 1 else ()))
    wait_until(lambda: "public.later: " in captured.said(), "the table to be read")
    captured.await_all()
    captured.check_equal("first", "later")
    assert captured.said().count("no topic can be called") == 1


def test_a_table_that_was_dropped_before_it_was_known(captured: Captured) -> None:
    captured.run("CREATE TABLE first (id int PRIMARY KEY)")
    captured.start_here(on_truncate="tombstones")
    captured.await_all()
    captured.stop()
    captured.run(
        "CREATE TABLE short (id int PRIMARY KEY)",
        "CREATE TABLE lived (id int PRIMARY KEY)",
        f"ALTER PUBLICATION drumlin_{captured.name} ADD TABLE short, lived",
        "INSERT INTO first SELECT generate_series(1, 3)",
        "INSERT INTO short SELECT generate_series(1, 300)",
        "UPDATE short SET id = -id WHERE id = 2",
        "TRUNCATE first, short, lived",
        "DROP TABLE short, lived",
        "INSERT INTO first VALUES (4)",
    )
    captured.start_here(on_truncate="tombstones")
    captured.await_all()
    captured.check_equal("first")


def test_rows_of_transactions_that_began_before(captured: Captured) -> None:
    """Neither the stream has them, nor a piece that is read too early."""
    captured.run("CREATE TABLE first (id int PRIMARY KEY)", "CREATE TABLE left_out (n int)")
    captured.start_here(tables=["public.first"])
    captured.await_all()
    captured.stop()
    captured.run("CREATE TABLE later (id int PRIMARY KEY, n int)")
    captured.run("INSERT INTO later SELECT i, 0 FROM generate_series(1, 30) i")
    with psycopg.connect(captured.url) as other:
        other.execute("UPDATE later SET n = 1 WHERE id = 3")
        other.execute("INSERT INTO later VALUES (100, 1)")
        captured.start_here(tables=["public.first", "public.later"])
        captured.await_all()
        captured.run("UPDATE later SET n = 2 WHERE id = 4")
        captured.await_all()
        time.sleep(0.5)
        assert captured.status().reading == ["public.later"]
        other.commit()
    _await_read(captured)
    captured.check_equal("later")


def test_a_topic_that_has_lost_rows_is_read_once_more(captured: Captured) -> None:
    captured.run(
        "CREATE TABLE item (id int PRIMARY KEY, name text)",
        "INSERT INTO item SELECT i, 'item ' || i FROM generate_series(1, 200) i",
    )
    captured.start_here()
    captured.await_all()
    with captured.client.writer(captured.topic("item")) as writer:
        writer.send(None, key='{"id":7}')
        writer.send('{"id":8,"name":"wrong"}', key='{"id":8}')
        writer.send('{"id":900,"name":"strange"}', key='{"id":900}')
    done = drumlin.capture.reread(captured.broker, tables=["public.i*"], name=captured.name)
    assert done == ["public.item"]
    _await_read(captured)
    captured.check_equal("item")
    assert len(captured.records("item")) == 200 + 3 + 3, "only what differs"
    captured.stop()
    told = captured.ask_log("reread", "--tables", "public.item")
    assert told.returncode == 0 and "public.item will be read again" in told.stdout
    captured.start_here()
    _await_read(captured)
    assert len(captured.records("item")) == 206
    with pytest.raises(CaptureRefused, match=r"no captured table matches x\.y: there are"):
        drumlin.capture.reread(captured.broker, tables=["x.y"], name=captured.name)
    with pytest.raises(CaptureRefused, match="there is no capture"):
        drumlin.capture.reread(captured.broker, tables=["*"], name="nobody")


def test_a_table_that_was_made_anew_is_read(captured: Captured) -> None:
    """Rows of the former one are gone from the topic, as from the database."""
    captured.run(
        "CREATE TABLE item (id int PRIMARY KEY, name text)",
        "INSERT INTO item SELECT i, 'item ' || i FROM generate_series(1, 100) i",
    )
    captured.start_here()
    captured.await_all()
    captured.run(
        "UPDATE item SET name = 'last' WHERE id < 5",
        "DROP TABLE item",
        "CREATE TABLE item (id int PRIMARY KEY, name text, n int)",
        "INSERT INTO item SELECT i, 'anew' FROM generate_series(50, 150) i",
    )
    wait_until(lambda: "rows read" in captured.said(), "the table")
    captured.run("UPDATE item SET n = 1")
    captured.await_all()
    captured.check_equal("item")


def test_a_name_that_a_renamed_table_has_left(captured: Captured) -> None:
    """The topic is that of the renamed one still."""
    captured.run(
        "CREATE TABLE item (id int PRIMARY KEY)", "CREATE TABLE other (id int PRIMARY KEY)"
    )
    captured.start_here()
    captured.await_all()
    captured.run("ALTER TABLE item RENAME TO thing", "CREATE TABLE item (id int PRIMARY KEY)")
    captured.run("INSERT INTO item VALUES (1)", "INSERT INTO thing VALUES (2)")
    wait_until(lambda: "not captured" in captured.said(), "the other table to be refused")
    captured.await_all()
    assert captured.state("item") == {'{"id":2}': '{"id":2}'}


@pytest.mark.parametrize("seed", seeds(1, 12))
def test_equal_when_read_under_load(captured: Captured, seed: int) -> None:
    captured.run(*SCHEMA, "CREATE TABLE first (id int PRIMARY KEY)")
    source = random.Random(seed)
    with captured.connect() as connection:
        for _ in range(60):
            transact(connection, source)
    captured.start_here(tables=["public.first"])
    captured.await_all()
    captured.stop()
    with load(captured, seed):
        captured.start_here()
        for _ in range(so_many(1, 8)):
            _await_read(captured)
            if source.random() < 0.5:
                captured.stop()
                captured.start_here()
            drumlin.capture.reread(captured.broker, tables=["*"], name=captured.name)
            threading.Event().wait(source.uniform(0, 1.0))
            captured.stop()
            captured.start_here()
    _await_read(captured)
    captured.check_equal(*TABLES)
    for table in TABLES:
        check_nothing_twice(captured, table)


def test_what_a_snapshot_shows() -> None:
    seen = parse_snapshot("98:105:98,101")
    assert [each for each in range(90, 110) if not seen.shows(each)] == [98, 101, *range(105, 110)]
    assert parse_snapshot("5:5:").shows(4)
    high = 7 << 32
    seen = Seen(high + 3, frozenset({high - 2}))  # the lower half has come round
    assert seen.shows(2) and not seen.shows(3) and seen.shows(2**32 - 1)
    assert not seen.shows(2**32 - 2)
    assert not Seen(high - 1, frozenset()).shows(2)


@pytest.mark.deep
def test_where_records_of_wal_end() -> None:
    segment = 16 << 20
    assert end_of_records(5 * segment + 40, 8192, segment) == 5 * segment
    assert end_of_records(5 * segment + 24, 8192, segment) == 5 * segment + 24
    assert end_of_records(segment + 8192 + 24, 8192, segment) == segment + 8192
    assert end_of_records(segment + 8192 + 40, 8192, segment) == segment + 8192 + 40
