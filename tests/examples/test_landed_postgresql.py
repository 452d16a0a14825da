"""A table of PostgreSQL has the topic's records or its last state, whatever is killed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from drumlin.client.client import Client
from drumlin.spark import Landing, land, landed
from drumlin.spark.landing.rows.mode import Mode
from drumlin.spark.landing.targets import postgresql
from drumlin.spark.landing.targets.target import LandingRefused, OtherRun, OtherTopic
from drumlin.spark.landing.targets.urls import open_target
from examples.conftest import NewTopic
from examples.killing import killed_once
from rig.servers.postgres import Postgres, running_postgres

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with running_postgres() as server:
        yield server


class Load:
    """A topic of three partitions and its table."""

    def __init__(
        self, spark: SparkSession, client: Client, address: str, topic: str, database: str
    ) -> None:
        self.spark, self.client, self.address = spark, client, address
        self.topic, self.database = topic, database

    def write(self, values: dict[str, str | None]) -> None:
        rows = {"key": list(values), "value": pa.array(values.values(), pa.string())}
        self.client.append(pa.table(rows), self.topic)

    def run(self, mode: Mode = "upsert", batch_offsets: int = 1000) -> Landing:
        (done,) = land(
            self.spark,
            self.topic,
            self.database,
            bootstrap=self.address,
            mode=mode,
            batch_offsets=batch_offsets,
        )
        return done

    def rows(self, columns: str) -> list[Any]:
        with psycopg.connect(self.database) as connection:
            statement = f'SELECT {columns} FROM "{self.topic}" ORDER BY partition, "offset"'
            return connection.execute(statement.encode()).fetchall()

    def table(self) -> dict[str, str]:
        found = {key.decode(): value for key, value in self.rows("key, value")}
        return {key: value.decode() for key, value in found.items() if value is not None}

    def tables(self) -> set[str]:
        with psycopg.connect(self.database) as connection:
            found = connection.execute(
                "SELECT tablename FROM pg_tables WHERE tablename LIKE 'drumlin_aside%'"
            )
            return {name for (name,) in found.fetchall()}


@pytest.fixture
def load(
    spark: SparkSession,
    client: Client,
    new_topic: NewTopic,
    drumlin_address: str,
    server: Postgres,
) -> Load:
    return Load(spark, client, drumlin_address, new_topic(3), server.url())


def test_upserts_and_tombstones_are_applied_once(
    load: Load, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    load.write({f"key-{number}": "first" for number in range(20)})
    load.write({"k" * 5000: "long"})
    with monkeypatch.context() as patched:
        dying = killed_once(postgresql.copy_records, tmp_path / "killed")
        patched.setattr(postgresql, "copy_records", dying)
        load.run(batch_offsets=12)
    assert (tmp_path / "killed").exists()
    load.write({"key-1": "second", "key-2": None, "never-there": None, "new": "first"})
    load.write({"new": "last"})
    load.run()
    wanted = {f"key-{number}": "first" for number in range(20)}
    wanted |= {"key-1": "second", "new": "last", "k" * 5000: "long"}
    del wanted["key-2"]
    assert load.table() == wanted
    assert load.run().batches == 0
    assert not load.tables()


@pytest.mark.deep
def test_records_are_appended_once(
    load: Load, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    load.write({f"key-{number}": None if number % 3 else "\0" for number in range(20)})
    dying = killed_once(postgresql.copy_records, tmp_path / "killed")
    monkeypatch.setattr(postgresql, "copy_records", dying)
    assert load.run("append", batch_offsets=12).batches == 2
    assert (tmp_path / "killed").exists()
    columns = ["partition", "offset", "key", "value"]
    wanted = load.client.read(load.topic, columns=columns).to_pylist()
    found = load.rows('partition, "offset", key, value')
    assert found == sorted((tuple(row.values()) for row in wanted), key=lambda row: row[:2])


@pytest.mark.parametrize("is_committed", [pytest.param(False, marks=pytest.mark.deep), True])
def test_a_driver_that_dies_beside_its_commit(
    load: Load, monkeypatch: pytest.MonkeyPatch, *, is_committed: bool
) -> None:
    load.write({"a": "1", "b": "1"})
    show = postgresql.PostgresTable._show

    def dying(*arguments: Any) -> None:
        if is_committed:
            show(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(postgresql.PostgresTable, "_show", dying)
        with pytest.raises(KeyboardInterrupt):
            load.run()
    assert len(load.tables()) == 1
    load.write({"a": "2"})
    assert load.run().offsets == 3 - 2 * is_committed
    assert load.table() == {"a": "2", "b": "1"}
    assert not load.tables()


def test_of_two_runs_at_once_one_fails(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    load.write({"a": "1"})
    show = postgresql.PostgresTable._show

    def meanwhile(*arguments: Any) -> int:
        monkeypatch.setattr(postgresql.PostgresTable, "_show", show)
        with pytest.raises(OtherRun, match="at this moment"):
            load.run()
        return show(*arguments)

    monkeypatch.setattr(postgresql, "NOTICED_MS", 100)
    monkeypatch.setattr(postgresql.PostgresTable, "_show", meanwhile)
    assert load.run().batches == 1
    assert load.table() == {"a": "1"}


def test_a_run_that_was_overtaken_adds_nothing(load: Load) -> None:
    """Where its lock was lost, as behind a pool of connections: here it has never asked for it."""
    load.write({"a": "1"})
    late = open_target(load.database, load.topic, "upsert", only_looks=True)
    try:
        assert late.position([0, 1, 2]) is None
        load.run()
        with pytest.raises(OtherRun, match="meanwhile"):
            late._show(late._connection, None, "", [], None)  # type: ignore[attr-defined]
    finally:
        late.close()


def test_where_a_key_is_in_two_partitions_the_later_record_counts(load: Load) -> None:
    """In one batch and in two; the same rule as Delta's."""

    def write(*rows: tuple[str, str | None, int, int]) -> None:
        names = ("key", "value", "partition", "timestamp")
        columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
        columns["value"] = pa.array(columns["value"], pa.string())
        load.client.append(pa.table(columns), load.topic, partition="partition")

    write(*((key, f"old{number}", 0, 1000 + number) for number in range(20) for key in "kl"))
    write(("k", "newest", 1, 5000), ("l", None, 1, 5000), ("m", None, 1, 5000), ("n", "n", 1, 5))
    load.run()
    assert load.table() == {"k": "newest", "n": "n"}
    write(("k", "late", 0, 4000), ("l", "late", 0, 4000), ("m", "late", 0, 4000), ("n", "N", 1, 4))
    load.run()
    assert load.table() == {"k": "newest", "n": "N"}


def test_a_table_is_of_one_topic_and_one_mode(load: Load) -> None:
    load.write({"a": "1"})
    load.run()
    with pytest.raises(LandingRefused, match="begun in mode 'upsert'"):
        load.run("append")
    load.client.delete_topic(load.topic)
    load.client.create_topic(load.topic, 3)
    with pytest.raises(OtherTopic, match="created again"):
        load.run()


def test_a_url_that_cannot_be_is_told_without_its_password(load: Load) -> None:
    where = "postgresql://user:secret@127.0.0.1/d?nonsense=1"
    with pytest.raises(LandingRefused, match="is not of the form") as refused:
        landed(load.topic, where, bootstrap=load.address, mode="append")
    assert "secret" not in f"{refused.value!r} {refused.value.__cause__!r}"


def test_what_is_no_landing_s_table_is_left_alone(load: Load) -> None:
    with psycopg.connect(load.database) as connection:
        connection.execute(f'CREATE TABLE "{load.topic}" (a int)'.encode())
    with pytest.raises(LandingRefused, match="no topic was landed in"):
        landed(load.topic, load.database, bootstrap=load.address, mode="append")
