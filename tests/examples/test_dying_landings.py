"""A landing whose driver dies at any line of its own, again and again: equal to the topic.

`test_killed_landings.py` kills whole commands at any moment, most of which is Spark's start.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyarrow import fs
from pyiceberg.catalog import load_catalog
from pyspark.sql import SparkSession

import drumlin.spark.landing
from drumlin.client.client import Client
from drumlin.spark import lake_files, land
from drumlin.spark.landing.rows import small_files
from drumlin.spark.landing.rows.mode import Mode
from drumlin.spark.landing.s3_account import S3Account
from drumlin.spark.landing.targets import delta, iceberg, lake_loads
from drumlin.spark.landing.targets.lake_loads import visible_loads
from drumlin.spark.landing.targets.parquet import open_lake
from drumlin.spark.landing.targets.s3_lake.folder import S3Folder
from examples.conftest import NewTopic
from rig.depth import so_many
from rig.servers.objects.s3 import LOGIN, new_bucket, running_s3
from rig.servers.postgres import running_postgres
from rig.servers.small_hdfs import small_hdfs

pytestmark = pytest.mark.spark

_OURS = str(Path(drumlin.spark.landing.__file__).parent)
#: A run has some hundreds of lines of ours; some deaths come too late.
_LINES = 500
_COLUMNS = ["partition", "offset", "key", "value"]
Row = dict[str, Any]


class Died(BaseException):
    """Here the process has ended."""


@contextmanager
def dying_at(line: int) -> Iterator[None]:
    """The driver dies when it has run this many lines of the landing. (What is `finally` runs.)"""
    left = line

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal left
        if not frame.f_code.co_filename.startswith(_OURS):
            return None
        if event == "line":
            left -= 1
            if left < 0:
                raise Died
        return trace

    sys.settrace(trace)
    try:
        yield
    except Died:
        pass
    finally:
        sys.settrace(None)


def _arrow(table: pa.Table) -> list[Row]:
    order = [(name, "ascending") for name in _COLUMNS[:2]]
    return table.select(_COLUMNS).sort_by(order).to_pylist()


def _lake(url: str) -> list[Row]:
    files, folder = open_lake(url.removeprefix("parquet:"))
    loads = visible_loads(files, folder)
    paths = [
        info.path
        for load in loads
        for info in files.get_file_info(fs.FileSelector(load, recursive=True))
        if info.path.endswith(".parquet")
    ]
    tables = [pq.read_table(files.open_input_file(path)) for path in paths]
    return _arrow(pa.concat_tables(tables))


def _delta(url: str) -> list[Row]:
    return _arrow(DeltaTable(url.removeprefix("delta:")).to_pyarrow_table())


def _iceberg(_: str) -> list[Row]:
    return _arrow(iceberg.load_catalog("lake").load_table(("landed", "topic")).scan().to_arrow())


def _postgres(url: str) -> list[Row]:
    names = ", ".join(f'"{name}"' for name in _COLUMNS)
    with psycopg.connect(url.partition("?")[0]) as connection:
        found = connection.execute(
            f'SELECT {names} FROM landed ORDER BY partition, "offset"'.encode()
        ).fetchall()
    return [dict(zip(_COLUMNS, row, strict=True)) for row in found]


def _s3(url: str) -> list[Row]:
    folder = S3Folder(url, S3Account())
    names = [each.removeprefix(f"{url}/") for each in lake_files(url)]
    tables = [pq.read_table(pa.BufferReader(folder.read(name))) for name in names]
    return _arrow(pa.concat_tables(tables))


READ: dict[str, Callable[[str], list[Row]]] = {
    "parquet": _lake,
    "hdfs": _lake,
    "s3": _s3,
    "delta": _delta,
    "iceberg": _iceberg,
    "postgresql": _postgres,
}


@pytest.fixture
def url(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """A new target of this kind."""
    kind = request.param
    if kind == "hdfs":
        with small_hdfs(tmp_path) as address:
            yield f"{address}/lake"
    elif kind == "s3":
        with running_s3() as endpoint:
            yield new_bucket(endpoint, monkeypatch).url("lake")
    elif kind == "postgresql":
        with running_postgres() as server:
            yield f"{server.url()}?table=landed"
    elif kind == "iceberg":
        where = {"uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}/warehouse"}
        monkeypatch.setattr(iceberg, "load_catalog", lambda name: load_catalog(name, **where))
        yield "iceberg:lake/landed.topic?buckets=3"
    else:
        yield f"{kind}:{tmp_path}/target"


_DEEP = pytest.mark.deep


@pytest.mark.parametrize(
    ("url", "mode"),
    [
        pytest.param("parquet", "append", marks=_DEEP),
        pytest.param("hdfs", "append", marks=_DEEP),
        pytest.param("s3", "append", marks=_DEEP),
        pytest.param("delta", "append", marks=_DEEP),
        pytest.param("delta", "upsert", marks=_DEEP),
        pytest.param("iceberg", "append", marks=_DEEP),
        pytest.param("iceberg", "upsert", marks=_DEEP),
        pytest.param("postgresql", "append", marks=_DEEP),
        pytest.param("postgresql", "upsert", marks=_DEEP),
    ],
    indirect=["url"],
)
@pytest.mark.timeout(3600)
def test_a_driver_that_dies_at_any_line(
    spark: SparkSession,
    client: Client,
    new_topic: NewTopic,
    drumlin_address: str,
    url: str,
    mode: Mode,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kind = url.partition(":")[0]
    for module in (delta, lake_loads, small_files):
        monkeypatch.setattr(module, "FEW", 3)  # so that files are merged
    topic, chance, deaths = new_topic(3), random.Random(f"{kind}{mode}"), 0

    def write(count: int) -> None:
        keys = [f"key-{chance.randrange(40)}" for _ in range(count)]
        values = [None if chance.random() < 0.1 else str(chance.random()) for _ in range(count)]
        client.append(pa.table({"key": keys, "value": pa.array(values, pa.string())}), topic)

    def run(**more: Any) -> None:
        given = {"bootstrap": drumlin_address, "compact_small_files": True, "batch_offsets": 30}
        if kind == "s3":  # tasks have the environment that Spark was started with
            given["s3"] = LOGIN
        land(spark, topic, url, mode=mode, **given, **more)

    def wanted() -> list[Row]:
        records = _arrow(client.read(topic, columns=_COLUMNS))
        if mode == "append":
            return records
        last = {row["key"]: row for row in records}  # a key is in one partition here
        found = sorted(last.values(), key=lambda row: (row["partition"], row["offset"]))
        return [row for row in found if kind != "iceberg" or row["value"] is not None]

    while deaths < so_many(4, 50):
        write(40)
        lines = chance.randrange(_LINES)
        done = False
        with dying_at(lines):
            run(rebuild=mode == "upsert" and chance.random() < 0.2)
            done = True
        deaths += not done
        if done:
            assert READ[kind](url) == wanted()
    run()
    assert READ[kind](url) == wanted()
