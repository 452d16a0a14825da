"""The lake has every record of its topic once, whatever is killed, deleted or run again."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from drumlin.client.client import Client
from examples.conftest import NewTopic
from examples.killing import killed_once
from rig.servers.small_hdfs import small_hdfs

pytestmark = pytest.mark.spark

COLUMNS = ["partition", "offset", "key", "value"]
Rows = list[tuple[Any, ...]]


@pytest.fixture(scope="module")
def lake(pipeline: Callable[[str], ModuleType]) -> ModuleType:
    return pipeline("lake")


def test_what_killed_runs_have_left_goes_when_it_is_old(lake: ModuleType, tmp_path: Path) -> None:
    found = lake.Lake(str(tmp_path), lake.Source("t", "id", (0,)))
    old, young, own = (tmp_path / "_aside" / name for name in ("old", "young", Path(found.aside)))
    for folder in (old, young, own):
        (folder / "attempt").mkdir(parents=True)
    os.utime(old, (0, 0))
    found.tidy()
    assert [each.name for each in (tmp_path / "_aside").iterdir()] == ["young"]


class Load:
    """A topic and its lake; every third record deletes its key."""

    def __init__(
        self, lake: ModuleType, spark: SparkSession, client: Client, topic: str, folder: Path
    ) -> None:
        self.module, self.spark, self.client, self.topic = lake, spark, client, topic
        self.cluster: Any = None
        self.folder, self.checkpoint = folder / "lake", folder / "checkpoint"
        self.count = 0

    def write(self, records: int) -> None:
        numbers = range(self.count, self.count + records)
        values = [None if number % 3 == 0 else f"value-{number}" for number in numbers]
        keys = [f"key-{number % 7}" for number in numbers]
        self.client.append(pa.table({"key": keys, "value": values}), self.topic)
        self.count += records

    def run(self, batch_offsets: int = 1000, url: str | None = None) -> None:
        arguments = (self.cluster, self.topic, url or str(self.folder), str(self.checkpoint))
        self.module.load(self.spark, *arguments, batch_offsets)

    def records(self) -> Rows:
        return _rows(pq.read_table(self.folder, columns=COLUMNS))

    def expected(self) -> Rows:
        return _rows(self.client.read(self.topic, columns=COLUMNS))

    def state(self) -> dict[bytes, bytes]:
        """The last value of each key, in the order of offsets; keys are in one partition each."""
        last = {key: value for _, _, key, value in self.expected()}
        return {key: value for key, value in last.items() if value is not None}

    def loads(self) -> list[Path]:
        return sorted(self.folder.glob("load=*"))


def _rows(table: pa.Table) -> Rows:
    return sorted(zip(*(table[name].to_pylist() for name in COLUMNS), strict=True))


def _table(lake: ModuleType, spark: SparkSession, url: str) -> dict[bytes, bytes]:
    return {bytes(row.key): bytes(row.value) for row in lake.table(spark, url).collect()}


@pytest.fixture
def load(
    lake: ModuleType,
    spark: SparkSession,
    client: Client,
    new_topic: NewTopic,
    cluster: Any,
    tmp_path: Path,
) -> Load:
    made = Load(lake, spark, client, new_topic(3), tmp_path)
    made.cluster = cluster
    return made


def test_a_lake_grows_by_what_is_new_and_by_nothing_else(load: Load) -> None:
    load.write(100)
    load.run(batch_offsets=60)
    first = load.loads()
    assert len(first) == 2
    load.run()
    assert load.loads() == first
    load.write(50)
    load.run()
    shutil.rmtree(load.checkpoint)
    load.run()
    assert len(load.loads()) == 3
    assert load.records() == load.expected()
    assert not list((load.folder / "_aside").iterdir())


def test_each_load_tells_its_offsets(load: Load) -> None:
    load.write(100)
    load.run()
    (folder,) = load.loads()
    assert json.loads((folder / "_offsets.json").read_text()) == {
        "topic": load.topic,
        "topic_id": load.client.describe_topics([load.topic])[load.topic].topic_id,
        "offsets": {
            str(partition): offset for partition, offset in load.client.offsets(load.topic).items()
        },
    }
    for file in folder.glob("*.parquet"):
        partition, first, end = map(int, file.stem.split("-"))
        read = pq.ParquetFile(file)
        assert set(read.read()["partition"].to_pylist()) == {partition}
        assert read.read()["offset"].to_pylist() == list(range(first, end))
        assert read.metadata.metadata[b"end_offset"] == str(end).encode()


def test_a_killed_task_adds_nothing_twice(
    load: Load, lake: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    load.write(100)
    mark = tmp_path / "killed"
    monkeypatch.setattr(lake, "write_files", killed_once(lake.write_files, mark))
    load.run()
    assert mark.exists()
    assert load.records() == load.expected()
    assert not list((load.folder / "_aside").iterdir())


@pytest.mark.parametrize("is_added", [pytest.param(False, marks=pytest.mark.deep), True])
def test_a_driver_that_dies_beside_its_rename(
    load: Load, lake: ModuleType, monkeypatch: pytest.MonkeyPatch, *, is_added: bool
) -> None:
    """Before it, nothing is there; after it, the batch is repeated, and adds nothing."""
    load.write(100)
    add = lake.Lake.add

    def dying(self: Any, written: Any) -> None:
        if is_added:
            add(self, written)
        raise OSError("the driver has died")

    with monkeypatch.context() as patched:
        patched.setattr(lake.Lake, "add", dying)
        with pytest.raises(StreamingQueryException, match="the driver has died"):
            load.run()
    assert len(load.loads()) == is_added
    load.write(50)
    load.run()
    assert load.records() == load.expected()


def test_of_two_runs_at_once_one_fails(load: Load, lake: ModuleType) -> None:
    load.write(100)
    rival = lake.Lake(str(load.folder), lake.look_up(load.cluster, load.topic))
    load.run()
    files = load.folder / "rivals"
    files.touch()
    row = lake.Row(path=str(files), partition=0, first_offset=0, end_offset=1)
    with pytest.raises(OSError, match="load="):
        rival.add([row])
    assert load.records() == load.expected()


def test_a_lake_is_of_one_topic(load: Load, lake: ModuleType, new_topic: NewTopic) -> None:
    """The offsets of another one, of that name even, would pass over its first records."""
    load.write(10)
    load.run()
    of_another = lake.look_up(load.cluster, new_topic(3))
    with pytest.raises(RuntimeError, match=r"Nothing was loaded\. A lake is of one topic"):
        lake.Lake(str(load.folder), of_another)
    before = lake.look_up(load.cluster, load.topic)
    load.client.delete_topic(load.topic)
    load.client.create_topic(load.topic, 3)
    load.write(15)
    now = lake.look_up(load.cluster, load.topic)
    with pytest.raises(RuntimeError, match=f"{before.topic_id}.*{now.topic_id}.*created again"):
        load.run()
    assert len(load.records()) == 10


@pytest.mark.deep
def test_where_a_key_is_in_two_partitions_the_later_record_counts(
    load: Load, lake: ModuleType
) -> None:
    """As it is when a topic was given more partitions. Their offsets have nothing to do with it."""
    rows = [("k", f"old{number}", 0, 1000 + number) for number in range(20)]
    rows += [("k", "newest", 1, 5000), ("gone", "old", 0, 2000), ("gone", None, 2, 3000)]
    # Within a partition the clock says nothing.
    rows += [("back", "first", 0, 9000), ("back", "second", 0, 4000)]
    names = ("key", "value", "partition", "timestamp")
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    load.client.append(pa.table(columns), load.topic, partition="partition")
    load.run()
    assert _table(lake, load.spark, str(load.folder)) == {b"k": b"newest", b"back": b"second"}


def test_the_lake_is_a_table(load: Load, lake: ModuleType) -> None:
    load.write(100)
    load.run(batch_offsets=60)
    assert _table(lake, load.spark, str(load.folder)) == load.state()


def test_a_lake_on_hadoop(
    load: Load, lake: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A task is killed, the checkpoint deleted, and a rival comes too late."""
    monkeypatch.setattr(lake, "write_files", killed_once(lake.write_files, tmp_path / "killed"))
    with small_hdfs(tmp_path) as address:
        url = f"{address}/lakes/flights"
        load.write(100)
        rival = lake.Lake(url, lake.look_up(load.cluster, load.topic))
        load.run(url=url)
        assert (tmp_path / "killed").exists()
        shutil.rmtree(load.checkpoint)
        load.run(url=url)
        files, folder = lake.open_lake(url)
        assert _rows(pq.read_table(folder, filesystem=files, columns=COLUMNS)) == load.expected()
        with files.open_output_stream(f"{folder}/rivals") as file:
            file.write(b"too late")
        row = lake.Row(path=f"{folder}/rivals", partition=0, first_offset=0, end_offset=1)
        with pytest.raises(OSError, match="exist"):
            rival.add([row])
        assert _table(lake, load.spark, url) == load.state()
        names = [each.base_name for each in files.get_file_info(lake.fs.FileSelector(folder))]
        assert [name for name in names if name.startswith("load=")] == ["load=00000000"]


@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_a_process_may_be_forked_once_a_lake_was_open(lake: ModuleType) -> None:
    """It would wait for threads of the client of HDFS, if anything of that were left."""
    lake.open_lake("hdfs://localhost:8020/lake")
    child = multiprocessing.get_context("fork").Process(target=os.getpid)
    child.start()
    child.join(30)
    child.kill()
    assert child.exitcode == 0
