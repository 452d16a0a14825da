"""Values that land as typed columns, in each kind of target, while their schema grows."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro
import psycopg
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from psycopg.rows import dict_row
from pyiceberg.catalog import load_catalog
from pyspark.sql import SparkSession

from drumlin.client.client import Client
from drumlin.spark import Landing, land, last_values
from drumlin.spark.landing.rows.mode import Mode
from drumlin.spark.landing.targets import iceberg
from drumlin.spark.landing.targets.target import LandingRefused
from drumlin.spark.values.bad_records import BadRecord
from examples.conftest import NewTopic
from rig.servers.postgres import Postgres, running_postgres
from rig.servers.schema_registry import running_registry

pytestmark = pytest.mark.spark

OLD = "id long, timestamp timestamp, tags array<string>"
NEW = f"{OLD}, place struct<city: string, zip: int>, price decimal(9, 2)"
#: The names of the columns for these fields.
COLUMNS = ("id", "value_timestamp", "tags", "place", "price")
_DEEP = pytest.mark.deep
UPSERTED = (
    "delta",
    pytest.param("iceberg", marks=_DEEP),
    pytest.param("postgresql", marks=_DEEP),
)
Value = dict[str, Any] | str | None
Row = dict[str, Any]


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with running_postgres() as server:
        yield server


class Load:
    """A topic of three partitions, and targets of all kinds."""

    def __init__(
        self, spark: SparkSession, client: Client, address: str, topic: str, folder: Path
    ) -> None:
        self.spark, self.client, self.address, self.topic = spark, client, address, topic
        self.folder = folder
        self.database = ""

    def write(self, values: dict[str, Value]) -> None:
        texts = [
            each if each is None or isinstance(each, str) else json.dumps(each)
            for each in values.values()
        ]
        rows = {"key": list(values), "value": pa.array(texts, pa.string())}
        self.client.append(pa.table(rows), self.topic)

    def run(self, kind: str, mode: Mode, schema: str | None, **more: Any) -> Landing:
        given = {} if schema is None else {"format": "json", "schema": schema}
        (done,) = land(
            self.spark,
            self.topic,
            self.url(kind),
            bootstrap=self.address,
            mode=mode,
            **{**given, **more},
        )
        return done

    def url(self, kind: str) -> str:
        urls = {"postgresql": self.database, "iceberg": "iceberg:lake/kept.typed?buckets=2"}
        return urls.get(kind, f"{kind}:{self.folder}/{kind}")

    def rows(self, kind: str) -> list[Row]:
        if kind == "postgresql":
            with psycopg.connect(self.database, row_factory=dict_row) as connection:
                found = connection.execute(f'SELECT * FROM "{self.topic}"'.encode()).fetchall()
        else:
            found = self._table(kind).to_pylist()
        return sorted(found, key=lambda row: (row["partition"], row["offset"]))

    def values(self, kind: str) -> dict[str, tuple[Any, ...]]:
        """The columns of each key that is not deleted."""
        return {
            row["key"].decode(): tuple(_plain(row.get(name)) for name in COLUMNS)
            for row in self.rows(kind)
            if not row.get("is_tombstone")
        }

    def _table(self, kind: str) -> pa.Table:
        if kind == "delta":
            return DeltaTable(f"{self.folder}/delta").to_pyarrow_table()
        if kind == "iceberg":
            return iceberg.load_catalog("lake").load_table(("kept", "typed")).scan().to_arrow()
        files = sorted((self.folder / "parquet").glob("load=*/*.parquet"))
        return pa.concat_tables(
            [pq.ParquetFile(each).read() for each in files], promote_options="default"
        )


def _plain(value: Any) -> Any:
    if hasattr(value, "isoformat"):
        return value.isoformat()[:19]
    return (
        dict(value) if isinstance(value, list) and value and isinstance(value[0], tuple) else value
    )


@pytest.fixture
def load(
    spark: SparkSession,
    client: Client,
    new_topic: NewTopic,
    drumlin_address: str,
    server: Postgres,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Load:
    where = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/warehouse"}
    monkeypatch.setattr(iceberg, "load_catalog", lambda name: load_catalog(name, **where))
    found = Load(spark, client, drumlin_address, new_topic(3), tmp_path)
    found.database = server.url()
    return found


WHEN = "2026-03-01T10:00:00Z"


@pytest.mark.parametrize("kind", UPSERTED)
def test_the_last_values_as_columns_that_become_more(load: Load, kind: str) -> None:
    first = {"id": 1, "timestamp": WHEN, "tags": ["a", "b"]}
    load.write({"a": first, "b": {"id": 2}, "c": {"id": 3}})
    load.run(kind, "upsert", OLD)
    time = "2026-03-01T10:00:00"
    assert load.values(kind) == {
        "a": (1, time, ["a", "b"], None, None),
        "b": (2, None, None, None, None),
        "c": (3, None, None, None, None),
    }
    load.write({"b": {"id": 20, "place": {"city": "Rome", "zip": 5}, "price": 1.5}, "c": None})
    load.run(kind, "upsert", NEW)
    found = load.values(kind)
    assert found.keys() == {"a", "b"}
    assert found["a"] == (1, time, ["a", "b"], None, None)
    assert found["b"][:4] == (20, None, None, {"city": "Rome", "zip": 5})
    assert float(found["b"][4]) == 1.5
    # A schema with fewer fields leaves the column, and what is there.
    load.write({"d": {"id": 4}})
    load.run(kind, "upsert", OLD)
    assert load.values(kind)["d"] == (4, None, None, None, None)
    assert load.values(kind)["b"][3] == {"city": "Rome", "zip": 5}
    with pytest.raises(LandingRefused, match="column 'id'"):
        load.write({"d": {"id": 4}})
        load.run(kind, "upsert", "id string")
    with pytest.raises(LandingRefused, match="begun with typed columns"):
        load.run(kind, "upsert", None)


@pytest.mark.deep
@pytest.mark.parametrize("kind", ["parquet", "delta", "iceberg", "postgresql"])
def test_every_record_as_columns(load: Load, kind: str) -> None:
    load.write({"a": {"id": 1}, "b": None})
    load.run(kind, "append", OLD)
    load.write({"a": {"id": 2, "price": 2.5}})
    load.run(kind, "append", NEW)
    rows = sorted(load.rows(kind), key=lambda row: (row["key"], row["offset"]))
    assert [row["id"] for row in rows] == [1, 2, None]
    assert [row["is_tombstone"] for row in rows] == [False, False, True]
    with pytest.raises(LandingRefused, match="begun with typed columns"):
        load.write({"a": {"id": 3}})
        load.run(kind, "append", None)


@pytest.mark.deep
def test_the_last_values_of_a_lake_with_columns(load: Load) -> None:
    load.write({"a": {"id": 1}, "b": {"id": 2}})
    load.run("parquet", "append", OLD)
    load.write({"a": {"id": 3, "price": 2.5}, "b": None})
    load.run("parquet", "append", NEW)
    (row,) = last_values(load.spark, f"{load.folder}/parquet").collect()
    assert (bytes(row.key), row.id, float(row.price)) == (b"a", 3, 2.5)


@pytest.mark.deep
@pytest.mark.parametrize("kind", ["delta", "postgresql"])
def test_bad_records_stop_it_or_are_told_in_columns(load: Load, kind: str) -> None:
    load.write({"a": {"id": 1}, "b": "no JSON"})
    with pytest.raises(BadRecord, match=rf"topic {load.topic} partition \d offset \d: cannot"):
        load.run(kind, "upsert", OLD)
    load.run(kind, "upsert", OLD, bad_records="column")
    assert {row["key"]: (row["id"], row["raw"]) for row in load.rows(kind)} == {
        b"a": (1, None),
        b"b": (None, b"no JSON"),
    }
    errors = {row["key"]: row["error"] for row in load.rows(kind)}
    assert errors[b"a"] is None
    assert errors[b"b"]


@pytest.mark.deep
@pytest.mark.parametrize("value", [{"tags": ["nul: \0"]}, {"text": "nul: \0"}])
def test_a_text_that_postgresql_cannot_hold(load: Load, value: Value) -> None:
    schema = "text string, tags array<string>"
    load.write({"a": {"text": "\\u0000", "tags": ["\\u0000"]}})
    load.run("postgresql", "upsert", schema, bad_records="column")
    load.write({"b": value})
    with pytest.raises(BadRecord, match=r"offset \d: cannot be stored: PostgreSQL has no text"):
        load.run("postgresql", "upsert", schema)
    load.run("postgresql", "upsert", schema, bad_records="column")
    found = {
        row["key"]: (row["text"], row["tags"], row["error"]) for row in load.rows("postgresql")
    }
    assert found[b"a"] == ("\\u0000", ["\\u0000"], None)
    assert found[b"b"][:2] == (None, None)
    assert "U+0000" in found[b"b"][2]


@pytest.mark.parametrize("kind", UPSERTED)
def test_a_table_that_may_lack_deletions_is_made_anew(load: Load, kind: str) -> None:
    load.client.set_topic_configs(load.topic, {"cleanup.policy": "compact,delete"})
    load.write({"a": "1", "b": "1", "c": "1"})
    load.run(kind, "upsert", None)
    # A cleaner removed b, and then its tombstone: the table has what the log no longer has.
    row = load.client.snapshot(load.topic).filter(pc.field("key") == b"b").to_pylist()[0]
    load.client.delete_records(load.topic, [row["partition"]], before=row["offset"] + 1)
    ends = load.client.offsets(load.topic)
    load.write({"c": "2", "d": "1"})
    done = load.run(kind, "upsert", None, rebuild=True)
    assert done.batches == 1
    assert done.position != ends
    state = load.client.snapshot(load.topic).select(["key", "value"]).to_pylist()
    assert {row["key"]: row["value"] for row in load.rows(kind)} == {
        row["key"]: row["value"] for row in state
    }
    load.write({"a": None, "e": "1"})
    load.run(kind, "upsert", None)
    found = {row["key"]: row["value"] for row in load.rows(kind) if row["value"] is not None}
    assert found == {b"c": b"2", b"d": b"1", b"e": b"1"}


@pytest.mark.deep
def test_columns_follow_the_registry_while_it_runs(load: Load) -> None:
    """A subject gets a version between two rounds of a run that goes on."""
    first = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
    note = {"name": "note", "type": ["null", "string"], "default": None}
    second = {**first, "fields": [*first["fields"], note]}
    stop, rounds = threading.Event(), list[Landing]()

    def write(schema: dict[str, Any], value: dict[str, Any]) -> None:
        schema_id = registry.add(f"{load.topic}-value", schema)
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
        framed = b"\0" + schema_id.to_bytes(4, "big") + stream.getvalue()
        load.client.append({"key": [str(value["id"])], "value": [framed]}, load.topic)

    def next_round(done: Landing) -> None:
        rounds.append(done)
        if len(rounds) == 1:
            write(second, {"id": 2, "note": "new"})
        else:
            stop.set()

    with running_registry() as registry:
        write(first, {"id": 1})
        given = {"format": "avro", "registry": registry.url, "every_s": 0.1, "stop": stop}
        load.run("delta", "append", None, on_progress=next_round, **given)
    rows = sorted((row["id"], row.get("note")) for row in load.rows("delta"))
    assert rows == [(1, None), (2, "new")]
