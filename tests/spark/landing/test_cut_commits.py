"""Connections to PostgreSQL that are cut at a commit: a landing knows its own, and goes on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import drumlin
from drumlin.spark import Landing, land
from drumlin.spark.landing.rows.mode import Mode
from rig.fault_injection.commit_proxy import CommitProxy, Cut
from rig.servers.postgres import Postgres, running_postgres
from spark.topics import Topic

pytestmark = pytest.mark.spark

_ROWS = 20
#: The first statement that fills a table takes two minutes. What it has taken is not rolled back.
_DAWDLE = """
CREATE SEQUENCE dawdled;
CREATE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF nextval('dawdled') = 1 THEN PERFORM pg_sleep(120); END IF;
    RETURN NULL;
END $$;
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with running_postgres() as server:
        yield server


@pytest.fixture
def topic(address: str) -> str:
    topic = Topic(address, 2).create().name
    _write(address, topic, range(_ROWS))
    return topic


def _write(address: str, topic: str, numbers: range) -> None:
    keys = [f"{number}" for number in numbers]
    with drumlin.connect(address) as client:
        client.append(pa.table({"key": keys, "value": keys}), topic)


def _landed(spark: SparkSession, topic: str, address: str, port: int, **given: Any) -> Landing:
    to = f"postgresql://admin@127.0.0.1:{port}/postgres"
    (done,) = land(spark, topic, to, bootstrap=address, batch_offsets=10, **given)
    return done


def _keys(server: Postgres, topic: str) -> list[int]:
    with psycopg.connect(server.url()) as connection:
        found = connection.execute(f'SELECT key FROM "{topic}"'.encode()).fetchall()
    return sorted(int(key) for (key,) in found)


@pytest.mark.parametrize(
    ("cut", "mode"),
    [
        ("late", "append"),
        pytest.param("late", "upsert", marks=pytest.mark.deep),
        pytest.param("before", "upsert", marks=pytest.mark.deep),
        pytest.param("after", "append", marks=pytest.mark.deep),
    ],
)
def test_the_commit_is_made_once(
    spark: SparkSession, topic: str, address: str, server: Postgres, cut: Cut, mode: Mode
) -> None:
    """Whether it was lost, or only its answer, or it comes while it is tried again."""
    retries = list[Exception]()
    with CommitProxy(server.port, b"INSERT INTO drumlin_positions") as proxy:
        proxy.cuts = iter([cut, cut])
        _landed(spark, topic, address, proxy.port, mode=mode, on_retry=retries.append)
    assert len(retries) == 2
    assert _keys(server, topic) == list(range(_ROWS))


def test_a_statement_that_runs_on_without_its_run(
    spark: SparkSession, topic: str, address: str, server: Postgres
) -> None:
    """The server ends it, as it notices that nobody waits for it, and the table is free again."""
    _landed(spark, topic, address, server.port)
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(_DAWDLE)
        connection.execute(
            f'CREATE TRIGGER dawdle BEFORE INSERT ON "{topic}" EXECUTE FUNCTION dawdle()'.encode()
        )
    _write(address, topic, range(_ROWS, _ROWS + 1))
    retries = list[Exception]()
    with CommitProxy(server.port, f'INSERT INTO "{topic}"'.encode()) as proxy:
        proxy.cuts = iter(["statement"])
        _landed(spark, topic, address, proxy.port, on_retry=retries.append)
    assert len(retries) == 1
    assert _keys(server, topic) == list(range(_ROWS + 1))
