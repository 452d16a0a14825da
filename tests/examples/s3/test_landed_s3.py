"""Tables and lakes in S3 have the topic's records or its last state, whatever is killed.

The store is Moto's. Workers of Spark are told of it by the landing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import duckdb_extension_httpfs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog
from pyspark.sql import SparkSession

from drumlin.client.client import Client
from drumlin.spark import Landing, lake_files, land, landed
from drumlin.spark.landing.rows.mode import Mode
from drumlin.spark.landing.s3_account import S3Account
from drumlin.spark.landing.targets import delta, iceberg
from drumlin.spark.landing.targets.s3_lake import lake as s3
from drumlin.spark.landing.targets.s3_lake.session import options_for_delta
from examples.conftest import NewTopic
from examples.killing import killed_once
from rig.depth import IS_DEEP
from rig.servers.objects.s3 import LOGIN, REGION, Bucket, new_bucket, running_s3

pytestmark = pytest.mark.spark

COLUMNS = ["partition", "offset", "key", "value"]


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with running_s3() as endpoint:
        yield endpoint


@pytest.fixture
def bucket(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    return new_bucket(endpoint, monkeypatch)


class Load:
    """A topic of three partitions, each key in one of them, and where it lands."""

    def __init__(
        self, spark: SparkSession, client: Client, address: str, topic: str, endpoint: str
    ) -> None:
        self.spark, self.client, self.address, self.topic = spark, client, address, topic
        self.given = {"endpoint": endpoint, "region": REGION, **LOGIN}

    def write(self, count: int, tombstones: int = 3) -> None:
        values = [None if each % tombstones == 0 else f"value-{each}" for each in range(count)]
        rows = {"key": [f"key-{each % 7}" for each in range(count)], "value": values}
        self.client.append(pa.table(rows), self.topic)

    def run(self, to: str, mode: Mode = "append", **options: Any) -> Landing:
        given = {"bootstrap": self.address, "s3": self.given, "batch_offsets": 60, **options}
        (done,) = land(self.spark, self.topic, to, mode=mode, **given)
        return done

    def records(self) -> list[dict[str, Any]]:
        return _rows(self.client.read(self.topic))

    def state(self) -> list[dict[str, Any]]:
        return _rows(self.client.snapshot(self.topic))


def _rows(table: pa.Table) -> list[dict[str, Any]]:
    return table.select(COLUMNS).sort_by([(name, "ascending") for name in COLUMNS[:2]]).to_pylist()


@pytest.fixture
def load(
    spark: SparkSession, client: Client, new_topic: NewTopic, drumlin_address: str, endpoint: str
) -> Load:
    return Load(spark, client, drumlin_address, new_topic(3), endpoint)


@pytest.fixture
def query(bucket: Bucket) -> Iterator[Callable[[str], list[dict[str, Any]]]]:
    """What DuckDB reads of Parquet files."""
    (path,) = Path(duckdb_extension_httpfs.__path__[0]).glob("extensions/*/*.duckdb_extension")
    with duckdb.connect() as connection:
        connection.execute(f"LOAD '{path}'")
        connection.execute(
            "CREATE SECRET (TYPE s3, KEY_ID 'somebody', SECRET 'a-secret', URL_STYLE 'path', "
            f"USE_SSL false, REGION '{REGION}', ENDPOINT '{bucket.endpoint.partition('//')[2]}')"
        )
        names = ", ".join(f'"{name}"' for name in COLUMNS)

        def rows(files: str) -> list[dict[str, Any]]:
            given = f"read_parquet({files}, hive_partitioning = true)"
            return _rows(connection.sql(f"SELECT {names}, load FROM {given}").to_arrow_table())

        yield rows


@pytest.mark.deep
def test_a_lake_grows_by_what_is_new(
    load: Load,
    bucket: Bucket,
    query: Callable[[str], list[dict[str, Any]]],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """A task is killed; readers list the folder, or ask for the files."""
    to = bucket.url("lakes/{topic}")
    load.write(100)
    with monkeypatch.context() as patched:
        patched.setattr(s3, "write_files", killed_once(s3.write_files, tmp_path / "killed"))
        done = load.run(to)
    assert (tmp_path / "killed").exists()
    assert (done.batches, done.lag) == (2, 0)
    load.write(50)
    assert load.run(to).batches == 1
    assert load.run(to).batches == 0
    folder = f"lakes/{load.topic}"
    assert not [each for each in bucket.names(folder) if each.startswith("_aside")]
    assert query(f"'{bucket.url(folder)}/**/*.parquet'") == load.records()
    assert query(str(lake_files(bucket.url(folder), s3=load.given))) == load.records()
    (found,) = landed(load.topic, to, bootstrap=load.address, mode="append", s3=load.given)
    assert (found.lag, sum(found.position.values())) == (0, 150)


@pytest.mark.deep
def test_a_driver_that_dies_behind_its_commit(
    load: Load, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next run puts the files in their places, although it has nothing to land."""
    to = bucket.url("lake")

    def dying(*_: Any) -> None:
        raise OSError("the driver has died")

    load.write(50)
    with monkeypatch.context() as patched:
        patched.setattr(s3, "complete", dying)
        with pytest.raises(OSError, match="the driver has died"):
            load.run(to)
    assert not lake_files(to, s3=load.given)
    assert load.run(to).batches == 0
    files = [bucket.read(each.partition(f"{bucket.name}/")[2]) for each in lake_files(to)]
    found = pa.concat_tables(pq.read_table(pa.BufferReader(each)) for each in files)
    assert _rows(found) == load.records()


@pytest.mark.deep
@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_a_delta_table(
    load: Load, bucket: Bucket, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, mode: Mode
) -> None:
    load.write(100)
    name = "write_files" if mode == "append" else "packed"
    with monkeypatch.context() as patched:
        function = killed_once(getattr(delta, name), tmp_path / "killed")
        patched.setattr(delta, name, function)
        load.run(f"delta:{bucket.url('table')}", mode)
    assert (tmp_path / "killed").exists()
    load.write(30, 2)
    load.run(f"delta:{bucket.url('table')}", mode, compact_small_files=True)
    if mode == "upsert" and IS_DEEP:
        load.run(f"delta:{bucket.url('table')}", mode, rebuild=True)
    options = options_for_delta(bucket.url("table"), S3Account.of(load.given))()
    found = _rows(DeltaTable(bucket.url("table"), storage_options=options).to_pyarrow_table())
    wanted = load.records()
    if mode == "upsert":
        found, wanted = [each for each in found if each["value"] is not None], load.state()
    assert found == wanted


@pytest.mark.deep
@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_an_iceberg_table(
    load: Load, bucket: Bucket, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, mode: Mode
) -> None:
    where = {
        "uri": f"sqlite:///{tmp_path}/catalog.db",
        "warehouse": bucket.url("warehouse"),
        "s3.endpoint": bucket.endpoint,
        "s3.region": REGION,
        "s3.access-key-id": LOGIN["access_key_id"],
        "s3.secret-access-key": LOGIN["secret_access_key"],
    }
    monkeypatch.setattr(iceberg, "load_catalog", lambda name: load_catalog(name, **where))
    for count in (100, 30):
        load.write(count, 2)
        load.run("iceberg:lake/kept.users?buckets=3", mode)
    table = load_catalog("lake", **where).load_table("kept.users")
    assert _rows(table.scan().to_arrow()) == (load.state() if mode == "upsert" else load.records())
    assert bucket.names("warehouse")
