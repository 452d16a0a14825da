"""What an operator meets: a database that is not ready, slots that were touched, two captures."""

from __future__ import annotations

import subprocess
import sys

import pytest

import drumlin.capture
from capture.captured import Captured
from drumlin.capture.errors import CaptureError, CaptureRefused
from drumlin.capture.running import care, supervised
from rig.servers.postgres import Postgres, running_postgres
from rig.waiting import wait_until


def _item(captured: Captured, *more: str) -> None:
    captured.run(
        "CREATE TABLE item (id int PRIMARY KEY, name text)",
        "INSERT INTO item SELECT each, 'item ' || each FROM generate_series(1, 100) each",
        *more,
    )


def _refused(captured: Captured) -> str:
    captured.start_here()
    assert captured.ended() == 1
    return captured.said().splitlines()[-1]


def test_all_that_is_missing_is_said_at_once(captured: Captured) -> None:
    captured.run(
        "CREATE TABLE bare (a int)",
        "CREATE TABLE late (a int PRIMARY KEY DEFERRABLE)",
        "CREATE UNLOGGED TABLE fast (a int PRIMARY KEY)",
        "CREATE TABLE none (a int PRIMARY KEY)",
        'CREATE TABLE "my item" (a int PRIMARY KEY)',
        "CREATE TABLE tablé (a int PRIMARY KEY)",
        "ALTER TABLE none REPLICA IDENTITY NOTHING",
        f"CREATE ROLE reader_{captured.name} LOGIN",
    )
    url = captured.server.url(captured.name, f"reader_{captured.name}")
    with pytest.raises(CaptureRefused) as refused:
        drumlin.capture.setup(url, name=captured.name)
    told = str(refused.value)
    for each in (
        f'ALTER ROLE "reader_{captured.name}" REPLICATION',
        "table public.bare has no key",
        "table public.late has no key",
        "table public.fast is unlogged",
        'ALTER TABLE "public"."none" REPLICA IDENTITY DEFAULT',
        f'GRANT SELECT ON "public"."bare" TO "reader_{captured.name}"',
        "CREATE PUBLICATION",
        "table public.my item: no topic can be called 'public.my item'",
        "table public.tablé: no topic can be called 'public.tablé'",
    ):
        assert each in told
    with pytest.raises(CaptureRefused, match=r"no table matches shop\.\*: there are public\.bare"):
        drumlin.capture.setup(captured.url, name=captured.name, tables=["shop.*"])


def test_a_publication_that_others_have_made(captured: Captured) -> None:
    name = f"drumlin_{captured.name}"
    _item(
        captured,
        "CREATE TABLE left_out (id int PRIMARY KEY)",
        "CREATE TABLE added (id int PRIMARY KEY)",
        f"CREATE PUBLICATION {name} FOR TABLE ONLY item, added WITH (publish = 'insert')",
    )
    tables = ["public.item", "public.left_out"]
    with pytest.raises(CaptureRefused) as refused:
        drumlin.capture.setup(captured.url, name=captured.name, tables=tables)
    for each in (
        f"ALTER PUBLICATION {name} SET (publish = 'insert, update, delete, truncate')",
        f'ALTER PUBLICATION {name} ADD TABLE ONLY "public"."left_out"',
        f'ALTER PUBLICATION {name} DROP TABLE "public"."added"',
    ):
        assert each in str(refused.value)
    with captured.connect() as connection:
        if connection.info.server_version < 150000:
            return
    captured.run(
        f"DROP PUBLICATION {name}", f"CREATE PUBLICATION {name} FOR TABLE ONLY item WHERE (id > 5)"
    )
    with pytest.raises(CaptureRefused, match=r"leaves out rows or columns of table public\.item"):
        drumlin.capture.setup(captured.url, name=captured.name, tables=["public.item"])


def test_a_server_without_logical_replication() -> None:
    settings = {"wal_level": "replica", "max_replication_slots": "0"}
    with running_postgres(settings) as server, pytest.raises(CaptureRefused) as refused:
        drumlin.capture.setup(server.url())
    assert "ALTER SYSTEM SET wal_level = 'logical'" in str(refused.value)
    assert "ALTER SYSTEM SET max_replication_slots = 4" in str(refused.value)


def test_a_user_with_the_least_rights(captured: Captured) -> None:
    user = f"capturer_{captured.name}"
    _item(captured, f"CREATE ROLE {user} LOGIN REPLICATION", f"GRANT SELECT ON item TO {user}")
    assert drumlin.capture.setup(captured.url, name=captured.name) == ["public.item"]
    captured.url = captured.server.url(captured.name, user)
    captured.start_here()
    captured.await_all()
    captured.check_equal("item")


def test_a_slot_that_others_have_touched(captured: Captured) -> None:
    slot = f"drumlin_{captured.name}"
    _item(captured, f"SELECT pg_create_logical_replication_slot('{slot}', 'pgoutput')")
    assert f"pg_drop_replication_slot('{slot}')" in _refused(captured)
    captured.run(f"SELECT pg_drop_replication_slot('{slot}')")
    captured.start_here()
    captured.await_all()
    captured.stop()
    captured.run(
        "UPDATE item SET name = 'lost'",
        f"SELECT pg_replication_slot_advance('{slot}', pg_current_wal_lsn())",
    )
    assert "was advanced by someone else: the changes from" in _refused(captured)
    told = captured.status()
    assert told.missing_bytes > 0 and not told.is_running
    captured.run(f"SELECT pg_drop_replication_slot('{slot}')")
    assert f"slot {slot} is gone" in _refused(captured)
    before = len(captured.records("item"))
    captured.run("UPDATE item SET name = 'item 1' WHERE id = 1", "DELETE FROM item WHERE id = 2")
    done = drumlin.capture.remove(captured.url, captured.broker, name=captured.name)
    assert len(done) == 2  # publication and position: the slot is gone already
    nothing = captured.ask("remove", "--yes")
    assert (nothing.returncode, nothing.stdout) == (0, "")
    assert f"there is nothing of a capture {captured.name} to remove" in nothing.stderr
    captured.start_here()
    captured.await_all()
    captured.check_equal("item")
    assert len(captured.records("item")) == before + 99, "only what differs is written again"


def test_a_second_capture_takes_over(captured: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    _item(captured)
    captured.start_here()
    captured.await_all()
    first, captured.process = captured.process, None
    captured.start_here()
    assert first is not None
    wait_until(lambda: first.poll() is not None, "the end of the first")
    assert first.returncode == 1
    captured.run("UPDATE item SET name = 'second' WHERE id < 10")
    captured.await_all()
    captured.check_equal("item")
    assert "another capture of this name has begun" in captured.said()
    assert len(captured.records("item")) == 109
    monkeypatch.setattr(care, "_ENDS_S", 0.2)
    with pytest.raises(CaptureRefused, match="stop it first"):
        drumlin.capture.remove(captured.url, captured.broker, name=captured.name)


def test_truncation_by_choice(captured: Captured) -> None:
    _item(captured)
    captured.start_here()
    captured.await_all()
    captured.run("TRUNCATE item", "INSERT INTO item VALUES (1, 'new')")
    assert captured.ended() == 1
    assert "--on-truncate tombstones" in captured.said().splitlines()[-1]
    captured.start_here(on_truncate="tombstones")
    captured.await_all()
    captured.check_equal("item")
    assert len(captured.records("item")) == 201


def test_columns_and_types_change_while_it_runs(captured: Captured) -> None:
    _item(captured)
    captured.start_here()
    captured.await_all()
    captured.run(
        "CREATE TYPE size AS ENUM ('s', 'm')",
        "ALTER TABLE item ADD sizes size[], ADD price numeric DEFAULT 1.50",
        "UPDATE item SET sizes = '{s,m}' WHERE id = 1",
        "ALTER TABLE item RENAME name TO title",
        "UPDATE item SET sizes = '{s}' WHERE id = 2",
        "ALTER TABLE item DROP title",
        "UPDATE item SET price = price + id WHERE id <= 3",
        "ALTER TABLE item RENAME TO thing",
        "DELETE FROM thing WHERE id > 3",
    )
    captured.await_all()
    assert list(captured.state("item").values()) == [
        '{"id":1,"sizes":["s","m"],"price":"2.50"}',
        '{"id":2,"sizes":["s"],"price":"3.50"}',
        '{"id":3,"sizes":null,"price":"4.50"}',
    ]
    captured.run("ALTER TABLE thing DROP CONSTRAINT item_pkey, ADD PRIMARY KEY (price)")
    captured.run("INSERT INTO thing VALUES (9, NULL, 9)")
    assert captured.ended() == 1
    assert "was captured by the key (id) and now has the key (price)" in captured.said()


def test_tables_that_come_later_and_a_quiet_database(captured: Captured) -> None:
    _item(captured)
    captured.start_here(tables=["public.item"])
    captured.await_all()
    captured.run("CREATE TABLE later (id int PRIMARY KEY)", "INSERT INTO later VALUES (1)")
    captured.await_all()  # though no captured table has changed
    captured.run(f"ALTER PUBLICATION drumlin_{captured.name} ADD TABLE later")
    captured.run("INSERT INTO later VALUES (2)")
    assert captured.ended() == 1
    assert "public.later" in captured.said().splitlines()[-1]


def test_partitioned_tables_are_one_topic(captured: Captured) -> None:
    captured.run(
        "CREATE TABLE parted (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)",
        "CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE parted_2 PARTITION OF parted FOR VALUES FROM (10) TO (20)",
        "INSERT INTO parted VALUES (1, 'a'), (11, 'b')",
    )
    captured.start_here()
    captured.await_all()
    captured.run("UPDATE parted SET id = 12 WHERE id = 1", "INSERT INTO parted VALUES (2, 'c')")
    captured.await_all()
    captured.check_equal("parted")


@pytest.mark.parametrize(
    ("url", "place", "other"),
    [
        ("postgresql://user:secret@127.0.0.1/x", "PGPASSFILE", "MYSQL_PWD"),
        ("host=127.0.0.1 password=secret", "PGPASSFILE", "MYSQL_PWD"),
        ("mariadb://user:secret@127.0.0.1/x", "MYSQL_PWD", "PGPASS"),
    ],
)
def test_a_password_does_not_belong_on_a_command_line(url: str, place: str, other: str) -> None:
    command = [sys.executable, "-m", "drumlin", "capture", "status", "--url", url]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert place in ended.stderr and other not in ended.stderr and "secret" not in ended.stderr


def test_a_row_that_no_broker_takes(captured: Captured) -> None:
    _item(captured)
    captured.start_here()
    captured.await_all()
    captured.run("UPDATE item SET name = repeat('x', 2000000) WHERE id = 7")
    assert captured.ended() == 1
    told = captured.said().splitlines()[-1]
    assert "max.message.bytes" in told and '{"id":7}' in told
    captured.client.set_topic_configs(captured.topic("item"), {"max.message.bytes": 4_000_000})
    captured.start_here()
    captured.await_all()
    captured.check_equal("item")


def test_text_of_another_encoding(captured: Captured) -> None:
    captured.run(
        f"CREATE DATABASE latin_{captured.name} ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0",
        f"CREATE DATABASE ascii_{captured.name} ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0",
    )
    first = captured.url
    captured.url = captured.server.url(f"latin_{captured.name}")
    captured.run(
        "CREATE TABLE item (id int PRIMARY KEY, name text)", "INSERT INTO item VALUES (1, 'ü')"
    )
    captured.start_here()
    captured.await_all()
    captured.run("INSERT INTO item VALUES (2, 'é')")
    captured.await_all()
    assert captured.state("item") == {
        '{"id":1}': '{"id":1,"name":"ü"}',
        '{"id":2}': '{"id":2,"name":"é"}',
    }
    captured.stop()
    drumlin.capture.remove(captured.url, captured.broker, name=captured.name)
    captured.url = captured.server.url(f"ascii_{captured.name}")
    captured.run("CREATE TABLE item (id int PRIMARY KEY, name text)")
    captured.start_here()
    captured.await_all()
    captured.run("INSERT INTO item VALUES (1, convert_from('\\xff', 'SQL_ASCII'))")
    assert captured.ended() == 1
    assert "invalid byte sequence" in captured.said().splitlines()[-1]
    captured.url = first


def test_neither_a_driver_nor_a_database(monkeypatch: pytest.MonkeyPatch) -> None:
    url = "postgresql://user:secret@127.0.0.1:1/shop"
    with pytest.raises(CaptureError, match="refused") as lost:
        drumlin.capture.setup(url)
    assert isinstance(lost.value, ConnectionError) and "secret" not in str(lost.value)
    with pytest.raises(CaptureError, match="postgresql://user@host/database"):
        drumlin.capture.setup("shop:secret")
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(ModuleNotFoundError, match="pip install"):
        drumlin.capture.setup(url)


def test_a_database_that_comes_later(
    postgres: Postgres, captured: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A capture that has reached it before waits for it; so does one that has not, for a while."""
    monkeypatch.setattr(supervised, "_TRIES", 20)
    _item(captured)
    postgres.stop()
    captured.start_here()
    wait_until(lambda: "trying again" in captured.said(), "the first failure")
    postgres.start()
    captured.await_all()
    postgres.restart()
    captured.run("DELETE FROM item WHERE id > 50")
    captured.await_all()
    captured.check_equal("item")
