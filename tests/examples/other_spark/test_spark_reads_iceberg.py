"""Iceberg tables that land are what Spark reads with Iceberg's own runtime, row by row."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyspark.sql import SparkSession

from drumlin.client.client import Client
from drumlin.spark import land
from drumlin.spark.landing.targets import iceberg
from examples.conftest import NewTopic
from examples.other_spark.iceberg_by_spark import IcebergBySpark
from rig.servers.running import skipped_where_unavailable

pytestmark = [pytest.mark.spark, pytest.mark.deep, pytest.mark.timeout(900)]

COLUMNS = ("key", "value", "partition", "offset", "timestamp")
#: A schema, and one that it has grown to.
SCHEMA = "id long, tags array<string>"
GROWN = f"{SCHEMA}, place struct<city: string, zip: int>"
Row = dict[str, Any]


class Lake:
    """A catalog on SQLite, written by landings and read by another Spark."""

    def __init__(self, spark: SparkSession, address: str, folder: Path) -> None:
        self.spark, self.address, self.folder = spark, address, folder
        self.reader = IcebergBySpark(folder / "catalog.db", folder / "warehouse")

    def land(self, topic: str, table: str, **options: Any) -> None:
        to = f"iceberg:lake/kept.{table}"
        (done,) = land(self.spark, topic, to, bootstrap=self.address, **options)
        assert done.batches > 0

    def snapshot_id(self, table: str) -> int:
        """The newest snapshot's."""
        found = iceberg.load_catalog("lake").load_table(("kept", table)).current_snapshot()
        assert found is not None
        return found.snapshot_id

    def read(self, *statements: str) -> list[list[Row]]:
        """Rows as Spark finds them; those of the topic's records sorted by them."""
        found = self.reader.answers(statements, self.folder)
        return [_sorted(each.to_pylist()) for each in found]


def _sorted(rows: list[Row]) -> list[Row]:
    if not rows or "offset" not in rows[0]:
        return rows
    return sorted(rows, key=lambda row: (row["partition"], row["offset"]))


@pytest.fixture
def lake(
    spark: SparkSession, drumlin_address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Lake:
    where = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/warehouse"}
    monkeypatch.setattr(iceberg, "load_catalog", lambda name: load_catalog(name, **where))
    with skipped_where_unavailable():
        return Lake(spark, drumlin_address, tmp_path)


def test_a_compacted_topic(lake: Lake, client: Client, new_topic: NewTopic) -> None:
    """Landed twice: updates and deletes are applied, without delete files."""
    topic = new_topic(3, cleanup_policy="compact")

    def land_these(values: dict[str, str | None]) -> tuple[list[Row], dict[int, int]]:
        rows = {"key": list(values), "value": pa.array(values.values(), pa.string())}
        client.append(pa.table(rows), topic)
        lake.land(topic, "users", mode="upsert")
        state = client.snapshot(topic).select(COLUMNS).to_pylist()
        return _sorted(state), client.offsets(topic)

    hostile = {"": "no key", "a\0b": "nul", "ключ\u2028": "", "long": "x" * 300_000}
    first, ends = land_these({f"key-{number}": "first" for number in range(200)} | hostile)
    version = lake.snapshot_id("users")
    deleted = {f"key-{number}": None for number in range(0, 200, 3)}
    second, last_ends = land_these(deleted | {"key-1": "second", "a\0b": None, "never-there": None})
    names = ", ".join(f"`{name}`" for name in COLUMNS)
    rows, earlier, deletes, snapshots = lake.read(
        f"SELECT {names} FROM lake.kept.users",
        f"SELECT {names} FROM lake.kept.users VERSION AS OF {version}",
        "SELECT * FROM lake.kept.users.all_delete_files",
        "SELECT summary['drumlin.topic'] AS topic, summary['drumlin.offsets'] AS ends,"
        " summary['drumlin.offsets-before'] AS begins"
        " FROM lake.kept.users.snapshots ORDER BY committed_at",
    )
    assert rows == second
    assert len(rows) == 136
    assert earlier == first
    assert deletes == []
    told = [(each["topic"], _offsets(each["begins"]), _offsets(each["ends"])) for each in snapshots]
    assert told == [(topic, {}, ends), (topic, ends, last_ends)]


def _offsets(text: str) -> dict[int, int]:
    return {int(partition): offset for partition, offset in json.loads(text).items()}


def test_columns_that_grow(lake: Lake, client: Client, new_topic: NewTopic) -> None:
    topic = new_topic(2, cleanup_policy="compact")

    def write(values: dict[str, Row | None]) -> None:
        texts = [each and json.dumps(each) for each in values.values()]
        rows = {"key": list(values), "value": pa.array(texts, pa.string())}
        client.append(pa.table(rows), topic)

    write({f"key-{number}": {"id": number, "tags": ["a", None]} for number in range(20)})
    lake.land(topic, "orders", mode="upsert", format="json", schema=SCHEMA)
    place = {"city": "Zürich", "zip": 8001}
    write({"key-1": {"id": -1, "tags": [], "place": place}, "key-2": None, "new": {"id": 2**62}})
    lake.land(topic, "orders", mode="upsert", format="json", schema=GROWN)
    (rows,) = lake.read("SELECT key, id, tags, place FROM lake.kept.orders")
    expected = {
        row["key"]: {"tags": None, "place": None} | json.loads(row["value"])
        for row in client.snapshot(topic).to_pylist()
    }
    assert {row.pop("key"): row for row in rows} == expected
    assert len(expected) == 20


def test_records_by_day(lake: Lake, client: Client, new_topic: NewTopic) -> None:
    """Those of a day are found without the files of others."""
    topic = new_topic(2)
    begin = datetime(2026, 2, 28, 20, tzinfo=UTC)

    def write(count: int) -> None:
        times = [begin + timedelta(hours=number) for number in range(count)]
        values = [None if number % 4 == 0 else f"{number}" for number in range(count)]
        rows = {"key": [f"{number % 5}" for number in range(count)], "value": values}
        client.append(pa.table({**rows, "timestamp": pa.array(times)}), topic)

    write(30)
    lake.land(topic, "events", partition_by="day")
    write(10)  # of days that are there
    lake.land(topic, "events")
    names = ", ".join(f"`{name}`" for name in COLUMNS)
    rows, of_a_day, days = lake.read(
        f"SELECT {names} FROM lake.kept.events",
        f"SELECT {names} FROM lake.kept.events"
        " WHERE `timestamp` >= '2026-03-01' AND `timestamp` < '2026-03-02'",
        "SELECT partition.timestamp_day AS day, record_count FROM lake.kept.events.partitions"
        " ORDER BY day",
    )
    records = _sorted(client.read(topic).select(COLUMNS).to_pylist())
    assert rows == records
    assert of_a_day == [row for row in records if row["timestamp"].date().day == 1]
    assert [(str(each["day"]), each["record_count"]) for each in days] == [
        ("2026-02-28", 8),
        ("2026-03-01", 30),
        ("2026-03-02", 2),
    ]
