"""Generated columns: PostgreSQL publishes stored ones from version 18 on, if it is asked to."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

import drumlin.capture
from capture.captured import Captured
from drumlin.capture.errors import CaptureRefused
from rig.servers.postgres import Postgres, running_postgres


def test_a_key_that_is_not_published(captured: Captured) -> None:
    captured.run(
        "CREATE TABLE item (a int, b int GENERATED ALWAYS AS (a * 2) STORED, PRIMARY KEY (b))"
    )
    with captured.connect() as connection:
        if connection.info.server_version >= 180000:
            pytest.skip("it can be published")
    with pytest.raises(
        CaptureRefused, match=r"the key of table public\.item has generated columns"
    ):
        drumlin.capture.setup(captured.url, name=captured.name)


@pytest.fixture
def newest() -> Iterator[Postgres]:
    with running_postgres(version="18.0.0") as server:
        yield server


def _captured(server: Postgres, address: str, name: str) -> Captured:
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return Captured(server, server.url(name), address, name)


@pytest.mark.deep
def test_stored_ones_are_columns_like_others(newest: Postgres, address: str) -> None:
    with _captured(newest, address, "generated") as captured:
        captured.run(
            "CREATE TABLE item (id int PRIMARY KEY, n int, twice int GENERATED ALWAYS AS (n * 2)"
            " STORED, thrice int GENERATED ALWAYS AS (n * 3) VIRTUAL)",
            "CREATE TABLE keyed (a int, b int GENERATED ALWAYS AS (a + 1) STORED PRIMARY KEY)",
            "INSERT INTO item VALUES (1, 10)",
            "INSERT INTO keyed VALUES (7)",
        )
        captured.start_here(tables=["public.item"])
        captured.await_all()
        captured.run("INSERT INTO item VALUES (2, 20)", "UPDATE item SET n = 11 WHERE id = 1")
        captured.await_all()
        expected = {
            '{"id":1}': '{"id":1,"n":11,"twice":22}',
            '{"id":2}': '{"id":2,"n":20,"twice":40}',
        }
        assert captured.state("item") == expected
        before = len(captured.records("item"))
        captured.stop()
        captured.start_here(tables=["public.*"])
        captured.await_all()
        drumlin.capture.reread(captured.broker, tables=["*"], name=captured.name)
        captured.run("UPDATE keyed SET a = 8")
        captured.await_all()
        assert captured.state("keyed") == {'{"b":9}': '{"a":8,"b":9}'}
        assert captured.state("item") == expected and len(captured.records("item")) == before


@pytest.mark.deep
def test_a_publication_of_somebody_else_leaves_them_out(newest: Postgres, address: str) -> None:
    with _captured(newest, address, "left_out") as captured:
        captured.run(
            "CREATE TABLE item (id int PRIMARY KEY, n int, twice int GENERATED ALWAYS AS (n * 2)"
            " STORED)",
            "INSERT INTO item VALUES (1, 10)",
            "CREATE PUBLICATION drumlin_left_out FOR TABLE ONLY item",
        )
        captured.start_here()
        captured.await_all()
        captured.run("UPDATE item SET n = 11")
        captured.await_all()
        assert captured.state("item") == {'{"id":1}': '{"id":1,"n":11}'}
        captured.run("ALTER PUBLICATION drumlin_left_out SET (publish_generated_columns = stored)")
        captured.run("UPDATE item SET n = 12")
        captured.await_all()
        assert captured.state("item") == {'{"id":1}': '{"id":1,"n":12,"twice":24}'}
