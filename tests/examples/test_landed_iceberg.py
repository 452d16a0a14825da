"""An Iceberg table has the topic's records or its last state, whatever is killed."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import duckdb
import duckdb_extension_avro
import duckdb_extension_iceberg
import pyarrow as pa
import pytest
from confluent_kafka import Producer
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.table import Table
from pyspark.sql import SparkSession

import drumlin
from drumlin.client.client import Client
from drumlin.spark import Landing, land
from drumlin.spark.landing.rows.mode import Mode
from drumlin.spark.landing.targets import iceberg
from drumlin.spark.landing.targets.iceberg import IcebergTable
from drumlin.spark.landing.targets.target import OtherTopic
from examples.conftest import NewTopic
from examples.killing import killed_once
from rig.waiting import wait_until

pytestmark = pytest.mark.spark

COLUMNS = ("key", "value", "partition", "offset")
State = dict[str, str | None]


@pytest.fixture
def catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Catalog:
    """One on SQLite. pyiceberg reads its configuration once, when it is imported."""
    where = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/warehouse"}
    monkeypatch.setattr(iceberg, "load_catalog", lambda name: load_catalog(name, **where))
    return load_catalog("lake", **where)


class Load:
    """A topic of three partitions and its table."""

    def __init__(
        self, spark: SparkSession, client: Client, address: str, topic: str, catalog: Catalog
    ) -> None:
        self.spark, self.client, self.address, self.topic = spark, client, address, topic
        self.catalog = catalog

    def write(self, values: State) -> None:
        rows = {"key": list(values), "value": pa.array(values.values(), pa.string())}
        self.client.append(pa.table(rows), self.topic)

    def run(self, mode: Mode = "upsert", batch_offsets: int = 1000, buckets: int = 4) -> Landing:
        (done,) = land(
            self.spark,
            self.topic,
            f"iceberg:lake/kept.users?buckets={buckets}",
            bootstrap=self.address,
            mode=mode,
            batch_offsets=batch_offsets,
        )
        return done

    def iceberg(self) -> Table:
        return self.catalog.load_table(("kept", "users"))

    def rows(self) -> list[dict[str, Any]]:
        return _sorted(self.iceberg().scan(selected_fields=COLUMNS).to_arrow().to_pylist())

    def state(self) -> list[dict[str, Any]]:
        """The judge: what the topic is as a table."""
        return _sorted(self.client.snapshot(self.topic).select(COLUMNS).to_pylist())

    def records(self) -> list[dict[str, Any]]:
        return _sorted(self.client.read(self.topic).select(COLUMNS).to_pylist())


def _sorted(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row["partition"], row["offset"]))


@pytest.fixture
def load(
    spark: SparkSession,
    client: Client,
    new_topic: NewTopic,
    drumlin_address: str,
    catalog: Catalog,
) -> Load:
    return Load(spark, client, drumlin_address, new_topic(3, cleanup_policy="compact"), catalog)


def test_upserts_and_deletes_are_applied_once(
    load: Load, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    load.write({f"key-{number}": "first" for number in range(20)})
    with monkeypatch.context() as patched:
        dying = killed_once(iceberg.packed, tmp_path / "killed")
        patched.setattr(iceberg, "packed", dying)
        load.run(batch_offsets=12)
    assert (tmp_path / "killed").exists()
    assert load.rows() == load.state()
    load.write({"key-1": "second", "key-2": None, "never-there": None, "new": "first"})
    load.write({"new": "last"})
    load.run()
    assert load.rows() == load.state()
    assert len(load.rows()) == 20
    history = load.iceberg().history()
    assert load.run().batches == 0
    assert load.iceberg().history() == history


@pytest.mark.deep
def test_records_are_appended_once(
    load: Load, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    load.write({f"key-{number}": None if number % 3 else "first" for number in range(20)})
    dying = killed_once(iceberg.append_files, tmp_path / "killed")
    monkeypatch.setattr(iceberg, "append_files", dying)
    assert load.run("append", batch_offsets=12).batches == 2
    assert (tmp_path / "killed").exists()
    load.write({"key-1": "second"})
    load.run("append")
    assert load.run("append").batches == 0
    assert load.rows() == load.records()


@pytest.mark.parametrize("is_committed", [pytest.param(False, marks=pytest.mark.deep), True])
def test_a_driver_that_dies_beside_its_commit(
    load: Load, monkeypatch: pytest.MonkeyPatch, *, is_committed: bool
) -> None:
    load.write({"a": "1", "b": "1"})
    show = IcebergTable.show

    def dying(*arguments: Any, **named: Any) -> None:
        if is_committed:
            show(*arguments, **named)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(IcebergTable, "show", dying)
        with pytest.raises(KeyboardInterrupt):
            load.run()
    load.write({"a": "2"})
    assert load.run().offsets == 3 - 2 * is_committed
    assert load.rows() == load.state()


def test_a_table_is_of_one_topic(load: Load) -> None:
    load.write({"a": "1"})
    load.run()
    load.client.delete_topic(load.topic)
    load.client.create_topic(load.topic, 3)
    with pytest.raises(OtherTopic, match="created again"):
        load.run()


def test_duckdb_reads_it(load: Load) -> None:
    load.write({f"key-{number}": "first" for number in range(20)})
    load.run()
    load.write({"key-1": "second", "key-2": None})
    load.run()
    connection = duckdb.connect()
    for package in (duckdb_extension_avro, duckdb_extension_iceberg):
        (path,) = Path(package.__path__[0]).glob("extensions/*/*.duckdb_extension")
        connection.execute(f"LOAD '{path}'")
    columns = ", ".join(f'"{name}"' for name in COLUMNS)
    statement = f"SELECT {columns} FROM iceberg_scan(?)"
    found = connection.execute(statement, [load.iceberg().metadata_location]).to_arrow_table()
    assert _sorted(found.to_pylist()) == load.state()


@pytest.mark.kafka
@pytest.mark.deep
def test_a_topic_of_apache_kafka_is_a_table(
    spark: SparkSession, kafka_address: str, catalog: Catalog
) -> None:
    """With transactions, of which some are aborted."""
    topic = f"landed-{uuid.uuid4().hex[:8]}"
    with drumlin.connect(kafka_address) as client:
        client.create_topic(topic, 3, configs={"cleanup.policy": "compact"})
        load = Load(spark, client, kafka_address, topic, catalog)
        settings = {"bootstrap.servers": kafka_address, "transactional.id": topic}
        producer = Producer({**settings, "partitioner": "murmur2_random"})
        producer.init_transactions()

        def committed() -> dict[int, int]:
            return client.offsets(topic, isolation="read_committed")

        for number in range(2):
            load.write(
                {f"key-{each}": None if each % 5 == number else "plain" for each in range(60)}
            )
            for ends, step in ((producer.commit_transaction, 7), (producer.abort_transaction, 3)):
                producer.begin_transaction()
                for each in range(0, 60, step):
                    producer.produce(topic, key=f"key-{each}", value=f"{step}")
                producer.flush()
                ends()
            wait_until(lambda: client.offsets(topic) == committed(), "markers of transactions")
            load.run(batch_offsets=50)
            assert load.rows() == load.state()
        assert b"3" not in {row["value"] for row in load.rows()}
        assert load.run().batches == 0
