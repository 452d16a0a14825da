"""The lake has every record of its topic once, whatever is killed, deleted or run again."""

from __future__ import annotations

import json
import multiprocessing
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs
from pyspark.sql import Row, SparkSession

from drumlin.client.client import Client
from drumlin.spark import Landing, land, landed, last_values
from drumlin.spark.landing.batch import look_up
from drumlin.spark.landing.rows.rows import Rows
from drumlin.spark.landing.targets import parquet
from drumlin.spark.landing.targets.parquet import Lake, open_lake
from drumlin.spark.landing.targets.target import OtherRun, OtherTopic, Position, RecordsLost
from examples.conftest import NewTopic
from examples.killing import killed_once
from rig.servers.small_hdfs import small_hdfs

pytestmark = pytest.mark.spark

COLUMNS = ["partition", "offset", "key", "value"]
Found = list[tuple[Any, ...]]


def test_what_killed_runs_have_left_goes_when_it_is_old(tmp_path: Path) -> None:
    found = Lake(str(tmp_path))
    old, young, own = (tmp_path / "_aside" / name for name in ("old", "young", Path(found._aside)))
    for folder in (old, young, own):
        (folder / "attempt").mkdir(parents=True)
    os.utime(old, (0, 0))
    found.tidy()
    assert [each.name for each in (tmp_path / "_aside").iterdir()] == ["young"]


class Load:
    """A topic and its lake; every third record deletes its key."""

    def __init__(
        self, spark: SparkSession, client: Client, address: str, topic: str, folder: Path
    ) -> None:
        self.spark, self.client, self.address, self.topic = spark, client, address, topic
        self.folder = folder / "lake"
        self.count = 0

    def write(self, records: int) -> None:
        numbers = range(self.count, self.count + records)
        values = [None if number % 3 == 0 else f"value-{number}" for number in numbers]
        keys = [f"key-{number % 7}" for number in numbers]
        self.client.append(pa.table({"key": keys, "value": values}), self.topic)
        self.count += records

    def run(self, batch_offsets: int = 1000, url: str | None = None) -> Landing:
        to = f"parquet:{url or self.folder}"
        (done,) = land(
            self.spark,
            self.topic,
            to,
            bootstrap=self.address,
            mode="append",
            batch_offsets=batch_offsets,
        )
        return done

    def records(self) -> Found:
        return _rows(pq.read_table(self.folder, columns=COLUMNS))

    def expected(self) -> Found:
        return _rows(self.client.read(self.topic, columns=COLUMNS))

    def state(self) -> dict[bytes, bytes]:
        """The last value of each key, in the order of offsets; keys are in one partition each."""
        last = {key: value for _, _, key, value in self.expected()}
        return {key: value for key, value in last.items() if value is not None}

    def loads(self) -> list[Path]:
        return sorted(self.folder.glob("load=*"))


def _rows(table: pa.Table) -> Found:
    return sorted(zip(*(table[name].to_pylist() for name in COLUMNS), strict=True))


def _table(spark: SparkSession, url: str) -> dict[bytes, bytes]:
    return {bytes(row.key): bytes(row.value) for row in last_values(spark, url).collect()}


class Rival:
    """A run that has read the lake's position, and comes with one file."""

    def __init__(self, url: str, path: str, topic: str) -> None:
        self._lake, self._topic = Lake(url), topic
        self._row = Row(path=path, partition=0, period=None, first_offset=0, end_offset=1)
        self._lake.position()

    def add(self) -> None:
        self._lake.show([self._row], self, Position(self._topic, "", {0: 1}))

    def confirm(self) -> None:
        """Nothing of a topic is looked at."""

    rows, is_whole, map = Rows.of("append"), False, None


@pytest.fixture
def load(
    spark: SparkSession, client: Client, new_topic: NewTopic, drumlin_address: str, tmp_path: Path
) -> Load:
    return Load(spark, client, drumlin_address, new_topic(3), tmp_path)


def test_a_lake_grows_by_what_is_new_and_by_nothing_else(load: Load) -> None:
    load.write(100)
    load.run(batch_offsets=60)
    first = load.loads()
    assert len(first) == 2
    load.run()
    assert load.loads() == first
    load.write(50)
    load.run()
    done = load.run()
    assert (done.batches, done.offsets, done.lag) == (0, 0, 0)
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
    load: Load, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    load.write(100)
    mark = tmp_path / "killed"
    monkeypatch.setattr(parquet, "write_files", killed_once(parquet.write_files, mark))
    load.run()
    assert mark.exists()
    assert load.records() == load.expected()
    assert not list((load.folder / "_aside").iterdir())


@pytest.mark.parametrize("is_added", [pytest.param(False, marks=pytest.mark.deep), True])
def test_a_driver_that_dies_beside_its_rename(
    load: Load, monkeypatch: pytest.MonkeyPatch, *, is_added: bool
) -> None:
    """Before it, nothing is there; after it, all of the batch, from which the next one goes on."""
    load.write(100)
    show = Lake.show

    def dying(self: Lake, *arguments: Any) -> None:
        if is_added:
            show(self, *arguments)
        raise OSError("the driver has died")

    with monkeypatch.context() as patched:
        patched.setattr(Lake, "show", dying)
        with pytest.raises(OSError, match="the driver has died"):
            load.run()
    assert len(load.loads()) == is_added
    load.write(50)
    load.run()
    assert load.records() == load.expected()


def test_of_two_runs_at_once_one_fails(load: Load) -> None:
    load.write(100)
    files = load.folder / "rivals"
    rival = Rival(str(load.folder), str(files), load.topic)
    load.run()
    files.touch()
    with pytest.raises(OtherRun, match="load="):
        rival.add()
    assert load.records() == load.expected()


def test_a_lake_is_of_one_topic(load: Load, new_topic: NewTopic) -> None:
    """The offsets of another one, of that name even, would pass over its first records."""
    load.write(10)
    load.run()
    first, load.topic = load.topic, new_topic(3)
    with pytest.raises(OtherTopic, match=r"Nothing was landed\. A target is of one topic"):
        load.run()
    load.topic = first
    before = look_up(load.client, load.topic)
    load.client.delete_topic(load.topic)
    load.client.create_topic(load.topic, 3)
    load.write(15)
    now = look_up(load.client, load.topic)
    with pytest.raises(OtherTopic, match=f"{before.topic_id}.*{now.topic_id}.*created again"):
        load.run()
    with pytest.raises(OtherTopic):
        landed(load.topic, f"parquet:{load.folder}", bootstrap=load.address, mode="append")
    assert len(load.records()) == 10


def test_a_topic_that_is_made_anew_while_it_is_read(
    load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    load.write(10)
    show = Lake.show

    def late(self: Lake, *arguments: Any) -> None:
        load.client.delete_topic(load.topic)
        load.client.create_topic(load.topic, 3)
        show(self, *arguments)

    monkeypatch.setattr(Lake, "show", late)
    with pytest.raises(OtherTopic, match="while it was read"):
        load.run()
    assert not load.loads()


def test_records_that_are_gone_before_they_landed_are_named(load: Load) -> None:
    load.write(30)
    load.run()
    load.write(30)
    ends = load.client.offsets(load.topic)
    load.client.delete_records(load.topic, [0], before=ends[0])
    load.write(30)
    with pytest.raises(RecordsLost, match=f"{load.topic}-0, whose log begins at {ends[0]} now"):
        load.run()
    to = f"parquet:{load.folder}"
    given = {"bootstrap": load.address, "mode": "append", "failOnDataLoss": "false"}
    (done,) = land(load.spark, load.topic, to, **given)
    assert done.lag == 0
    assert set(load.expected()) < set(load.records())


@pytest.mark.deep
def test_where_a_key_is_in_two_partitions_the_later_record_counts(load: Load) -> None:
    """As it is when a topic was given more partitions. Their offsets have nothing to do with it."""
    rows = [("k", f"old{number}", 0, 1000 + number) for number in range(20)]
    rows += [("k", "newest", 1, 5000), ("gone", "old", 0, 2000), ("gone", None, 2, 3000)]
    # Within a partition the clock says nothing.
    rows += [("back", "first", 0, 9000), ("back", "second", 0, 4000)]
    names = ("key", "value", "partition", "timestamp")
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    load.client.append(pa.table(columns), load.topic, partition="partition")
    load.run()
    assert _table(load.spark, str(load.folder)) == {b"k": b"newest", b"back": b"second"}


def test_the_lake_is_a_table(load: Load) -> None:
    load.write(100)
    load.run(batch_offsets=60)
    assert _table(load.spark, str(load.folder)) == load.state()


@pytest.mark.deep
def test_a_lake_on_hadoop(load: Load, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A task is killed, and a rival comes too late."""
    dying = killed_once(parquet.write_files, tmp_path / "killed")
    monkeypatch.setattr(parquet, "write_files", dying)
    with small_hdfs(tmp_path) as address:
        url = f"{address}/lakes/flights"
        load.write(100)
        rival = Rival(url, "/lakes/flights/rivals", load.topic)
        load.run(url=url)
        assert (tmp_path / "killed").exists()
        load.run(url=url)
        files, folder = open_lake(url)
        assert _rows(pq.read_table(folder, filesystem=files, columns=COLUMNS)) == load.expected()
        with files.open_output_stream(f"{folder}/rivals") as file:
            file.write(b"too late")
        with pytest.raises(OtherRun):
            rival.add()
        assert _table(load.spark, url) == load.state()
        names = [each.base_name for each in files.get_file_info(fs.FileSelector(folder))]
        assert [name for name in names if name.startswith("load=")] == ["load=00000000"]


@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_a_process_may_be_forked_once_a_lake_was_open() -> None:
    """It would wait for threads of the client of HDFS, if anything of that were left."""
    open_lake("hdfs://localhost:8020/lake")
    child = multiprocessing.get_context("fork").Process(target=os.getpid)
    child.start()
    child.join(30)
    child.kill()
    assert child.exitcode == 0
