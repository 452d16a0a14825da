"""`drumlin land`, killed at random again and again: the target equals the topic, row by row."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog

from drumlin.client.client import Client
from drumlin.spark.landing.s3_account import S3Account
from drumlin.spark.landing.targets.parquet import open_lake
from drumlin.spark.landing.targets.s3_lake.folder import S3Folder
from examples.conftest import NewTopic
from rig.depth import so_many
from rig.jvm.java import spark_environment
from rig.servers.objects.s3 import new_bucket, running_s3
from rig.servers.postgres import running_postgres
from rig.servers.small_hdfs import small_hdfs

pytestmark = [pytest.mark.spark, pytest.mark.deep]

#: Each run finds at least this many batches to land.
_BATCHES = 3
_PLACE = ["partition", "offset"]


def _command(address: str, topic: str, to: str, mode: str) -> list[str]:
    given = ["--topics", topic, "--to", to, "--mode", mode, "--bootstrap", address]
    return [sys.executable, "-m", "drumlin", "land", *given, "--batch-offsets", "2000"]


def _parquet(folder: Path) -> pa.Table:
    return pq.read_table(folder, columns=[*_PLACE, "key", "value"])


def _delta(folder: Path) -> pa.Table:
    return DeltaTable(folder).to_pyarrow_table(columns=[*_PLACE, "key", "value"])


def _iceberg(folder: Path) -> pa.Table:
    found = load_catalog("lake", uri=_catalog(folder)).load_table("landed.topic")
    return found.scan(selected_fields=(*_PLACE, "key", "value")).to_arrow()


def _hdfs(url: str) -> pa.Table:
    files, folder = open_lake(url)
    return pq.read_table(folder, filesystem=files, columns=[*_PLACE, "key", "value"])


def _s3(url: str) -> pa.Table:
    """As readers find it who list the folder."""
    folder = S3Folder(url, S3Account())
    names = [each.name for each in folder.objects() if each.name.endswith(".parquet")]
    files = [pa.BufferReader(folder.read(name)) for name in names]
    return pa.concat_tables(
        pq.read_table(each, columns=[*_PLACE, "key", "value"]) for each in files
    )


def _postgres(url: str) -> pa.Table:
    with psycopg.connect(url.partition("?")[0]) as connection:
        found = connection.execute('SELECT partition, "offset", key, value FROM landed').fetchall()
    names = [*_PLACE, "key", "value"]
    return pa.table(dict(zip(names, map(list, zip(*found, strict=True)), strict=True)))


def _catalog(folder: Path) -> str:
    return f"sqlite:///{folder}.db"


def _rows(table: pa.Table) -> list[dict[str, Any]]:
    return table.sort_by([(name, "ascending") for name in _PLACE]).to_pylist()


def _live(process: subprocess.Popen[str], chance: random.Random) -> None:
    """Wait for some moment of a run's start, or for some of its batches and a little longer."""
    if not (batches := chance.randrange(_BATCHES + 1)):
        time.sleep(chance.uniform(0.0, 10.0))
        return
    assert process.stderr is not None
    said = list[str]()
    for line in process.stderr:
        said.append(line)
        if sum("offsets landed" in each for each in said) == batches:
            time.sleep(chance.uniform(0.0, 2.0))
            return
    raise AssertionError(f"it has ended after too few batches:\n{''.join(said)[-4000:]}")


@pytest.fixture
def place(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of the target; "" for a folder of the test's own."""
    if kind == "hdfs":
        with small_hdfs(tmp_path) as address:
            yield f"{address}/lake"
    elif kind == "s3":
        with running_s3() as endpoint:
            yield new_bucket(endpoint, monkeypatch).url("lake")
    elif kind == "postgresql":
        with running_postgres() as server:
            yield f"{server.url()}?table=landed"
    else:
        yield "iceberg:lake/landed.topic" if kind == "iceberg" else ""


@pytest.mark.parametrize(
    ("kind", "mode", "read"),
    [
        ("parquet", "append", _parquet),
        ("hdfs", "append", _hdfs),
        ("s3", "append", _s3),
        ("delta", "append", _delta),
        ("delta", "upsert", _delta),
        ("iceberg", "append", _iceberg),
        ("iceberg", "upsert", _iceberg),
        ("postgresql", "append", _postgres),
        ("postgresql", "upsert", _postgres),
    ],
)
@pytest.mark.timeout(3600)
def test_a_landing_that_is_killed(
    client: Client,
    new_topic: NewTopic,
    drumlin_address: str,
    tmp_path: Path,
    kind: str,
    mode: str,
    read: Callable[[Any], pa.Table],
    place: str,
) -> None:
    topic, folder, chance = new_topic(3), tmp_path / "target", random.Random(kind + mode)
    to = place or f"{kind}:{folder}"
    command = _command(drumlin_address, topic, to, mode)
    environment = {
        **os.environ,
        **spark_environment(),
        "PYICEBERG_CATALOG__LAKE__URI": _catalog(folder),
        "PYICEBERG_CATALOG__LAKE__WAREHOUSE": f"file://{folder}",
    }

    def write(count: int) -> None:
        keys = [f"key-{chance.randrange(500)}" for _ in range(count)]
        values = [None if chance.random() < 0.1 else str(chance.random()) for _ in range(count)]
        client.append(pa.table({"key": keys, "value": pa.array(values, pa.string())}), topic)

    for _ in range(so_many(3, 17)):
        write(5000)
        with subprocess.Popen(
            command, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True
        ) as process:
            try:
                _live(process, chance)
            finally:
                os.killpg(process.pid, signal.SIGKILL)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    records = client.read(topic, columns=[*_PLACE, "key", "value"])
    if mode == "upsert":  # a key is in one partition here
        last = {row["key"]: row for row in _rows(records)}
        wanted = sorted(last.values(), key=lambda row: (row["partition"], row["offset"]))
        if kind == "iceberg":  # a key that is deleted has no row
            wanted = [row for row in wanted if row["value"] is not None]
    else:
        wanted = _rows(records)
    assert _rows(read(place if kind in ("hdfs", "postgresql", "s3") else folder)) == wanted
