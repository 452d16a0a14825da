"""The Delta table is the topic's last state, whatever is killed, deleted or run again."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from drumlin.client.client import Client
from examples.conftest import NewTopic
from examples.killing import killed_while_reading

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def delta(pipeline: Callable[[str], ModuleType]) -> ModuleType:
    return pipeline("delta_table")


class Load:
    """A topic of three partitions and its table."""

    def __init__(
        self,
        delta: ModuleType,
        spark: SparkSession,
        client: Client,
        cluster: Any,
        topic: str,
        folder: Path,
    ) -> None:
        self.delta, self.spark, self.client = delta, spark, client
        self.cluster, self.topic = cluster, topic
        self.folder, self.checkpoint = str(folder / "table"), str(folder / "checkpoint")

    def write(self, values: dict[str, str | None]) -> None:
        rows = {"key": list(values), "value": pa.array(values.values(), pa.string())}
        self.client.append(pa.table(rows), self.topic)

    def run(self, batch_offsets: int = 1000) -> None:
        arguments = (self.cluster, self.topic, self.folder, self.checkpoint)
        self.delta.load(self.spark, *arguments, batch_offsets)

    def table(self) -> dict[str, str]:
        rows = DeltaTable(self.folder).to_pyarrow_table().to_pylist()
        found = {row["key"].decode(): row["value"] for row in rows}
        assert len(found) == len(rows)
        return {key: value.decode() for key, value in found.items() if value is not None}

    def version(self) -> int:
        return DeltaTable(self.folder).version()


@pytest.fixture
def load(
    delta: ModuleType,
    spark: SparkSession,
    client: Client,
    new_topic: NewTopic,
    cluster: Any,
    tmp_path: Path,
) -> Load:
    return Load(delta, spark, client, cluster, new_topic(3), tmp_path)


def test_upserts_and_tombstones_are_applied_once(
    load: Load, delta: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    load.write({f"key-{number}": "first" for number in range(20)})
    with monkeypatch.context() as patched:
        patched.setattr(delta, "read", killed_while_reading(delta.read, tmp_path / "killed"))
        load.run(batch_offsets=12)
    assert (tmp_path / "killed").exists()
    load.write({"key-1": "second", "key-2": None, "never-there": None, "new": "first"})
    load.run()
    wanted = {f"key-{number}": "first" for number in range(20)} | {
        "key-1": "second",
        "new": "first",
    }
    del wanted["key-2"]
    assert load.table() == wanted
    version = load.version()
    load.run()
    shutil.rmtree(load.checkpoint)
    load.run()
    assert load.version() == version
    assert load.table() == wanted


def test_where_a_key_is_in_two_partitions_the_later_record_counts(load: Load) -> None:
    """As it is when a topic was given more partitions. In which order they are read is chance."""

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
    assert load.client.offsets(load.topic)[0] == 43


def test_a_table_is_of_one_topic(load: Load, delta: ModuleType, new_topic: NewTopic) -> None:
    before = delta.look_up(load.cluster, load.topic)
    delta.open_table(load.folder, before)
    with pytest.raises(RuntimeError, match="A table is of one topic"):
        delta.open_table(load.folder, delta.look_up(load.cluster, new_topic()))
    load.client.delete_topic(load.topic)
    load.client.create_topic(load.topic, 3)
    with pytest.raises(RuntimeError, match=f"{before.topic_id}.* created again"):
        load.run()


def test_the_position_outlives_the_history(load: Load, delta: ModuleType) -> None:
    """It is part of the table's state, not of what its commits say of themselves."""
    load.write({"a": "1", "b": "1"})
    load.run()
    table = DeltaTable(load.folder)
    table.create_checkpoint()
    for entry in Path(load.folder, "_delta_log").glob("*.json"):
        entry.unlink()
    ends = load.client.offsets(load.topic)
    found = delta.position(DeltaTable(load.folder), load.topic, [0, 1, 2])
    assert found == {partition: end for partition, end in ends.items() if end}


@pytest.mark.parametrize("is_committed", [pytest.param(False, marks=pytest.mark.deep), True])
def test_a_driver_that_dies_beside_its_commit(
    load: Load, delta: ModuleType, monkeypatch: pytest.MonkeyPatch, *, is_committed: bool
) -> None:
    load.write({"a": "1", "b": "1"})
    merge = delta.merge

    def dying(*arguments: Any) -> None:
        if is_committed:
            merge(*arguments)
        raise OSError("the driver has died")

    with monkeypatch.context() as patched:
        patched.setattr(delta, "merge", dying)
        with pytest.raises(StreamingQueryException, match="the driver has died"):
            load.run()
    before = load.version()
    load.write({"a": "2"})
    load.run()
    assert load.table() == {"a": "2", "b": "1"}
    # The batch that was begun, unless it was committed, and the next.
    assert load.version() == before + 2 - is_committed


def test_of_two_runs_at_once_one_fails(load: Load, delta: ModuleType) -> None:
    load.write({"a": "1"})
    rival = delta.open_table(load.folder, delta.look_up(load.cluster, load.topic))
    batch = (
        load.spark.read.format("drumlin")
        .option("kafka.bootstrap.servers", load.cluster.brokers)
        .option("subscribe", load.topic)
        .load()
    )
    load.run()
    version = load.version()
    with pytest.raises(CommitFailedError):
        delta.merge(batch, rival, load.topic)
    assert load.version() == version
