"""The Delta table is the topic's last state, whatever is killed, deleted or run again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from drumlin.client.client import Client
from drumlin.spark import Landing, land, map_batches
from drumlin.spark.landing.batch import look_up
from drumlin.spark.landing.rows.mode import Mode
from drumlin.spark.landing.rows.rows import Rows
from drumlin.spark.landing.targets import delta
from drumlin.spark.landing.targets.delta import Table
from drumlin.spark.landing.targets.target import (
    LandingRefused,
    OtherRun,
    OtherTopic,
    Position,
    RecordsLost,
)
from drumlin.spark.options.transform import BatchFunction
from examples.conftest import NewTopic
from examples.killing import killed_once

pytestmark = pytest.mark.spark


class Load:
    """A topic of three partitions and its table."""

    def __init__(
        self, spark: SparkSession, client: Client, address: str, topic: str, folder: Path
    ) -> None:
        self.spark, self.client, self.address, self.topic = spark, client, address, topic
        self.folder = str(folder / "table")

    def write(self, values: dict[str, str | None]) -> None:
        rows = {"key": list(values), "value": pa.array(values.values(), pa.string())}
        self.client.append(pa.table(rows), self.topic)

    def run(self, batch_offsets: int = 1000, mode: Mode = "upsert") -> Landing:
        (done,) = land(
            self.spark,
            self.topic,
            f"delta:{self.folder}",
            bootstrap=self.address,
            mode=mode,
            batch_offsets=batch_offsets,
        )
        return done

    def table(self) -> dict[str, str]:
        rows = DeltaTable(self.folder).to_pyarrow_table().to_pylist()
        found = {row["key"].decode(): row["value"] for row in rows}
        assert len(found) == len(rows)
        return {key: value.decode() for key, value in found.items() if value is not None}

    def version(self) -> int:
        return DeltaTable(self.folder).version()


@pytest.fixture
def load(
    spark: SparkSession, client: Client, new_topic: NewTopic, drumlin_address: str, tmp_path: Path
) -> Load:
    return Load(spark, client, drumlin_address, new_topic(3), tmp_path)


def test_upserts_and_tombstones_are_applied_once(
    load: Load, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    load.write({f"key-{number}": "first" for number in range(20)})
    with monkeypatch.context() as patched:
        patched.setattr(delta, "packed", killed_once(delta.packed, tmp_path / "killed"))
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
    assert load.run().batches == 0
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


def test_a_batch_that_changes_no_row_is_landed_as_well(load: Load) -> None:
    """Else the next one would begin where it does, for ever."""
    load.client.append(pa.table({"value": ["no key"] * 3}), load.topic)
    assert load.run().batches == 1
    assert (load.run().batches, load.table()) == (0, {})
    for partition, timestamp in ((0, 2000), (1, 1000)):
        row = {"key": ["k"], "value": [str(timestamp)], "timestamp": [timestamp]}
        load.client.append(pa.table(row), load.topic, partition=lambda *_, at=partition: [at])
        assert load.run().batches == 1
    assert (load.run().batches, load.table()) == (0, {"k": "2000"})


def test_deletions_that_may_be_gone_are_not_passed_over(load: Load) -> None:
    """A cleaner removes tombstones, and the table would keep what they delete."""
    load.client.set_topic_configs(load.topic, {"cleanup.policy": "compact"})
    load.write({"a": "1"})
    load.run()
    load.client.set_topic_configs(load.topic, {"delete.retention.ms": 0})
    version = load.version()
    assert load.run().batches == 0
    assert load.version() == version + 1  # by which the next one knows when it was at the end
    load.write({"a": None})
    with pytest.raises(RecordsLost, match=r"tombstones stay for delete.retention.ms=0"):
        load.run()
    assert load.table() == {"a": "1"}
    load.client.set_topic_configs(load.topic, {"delete.retention.ms": None})
    load.run()
    assert load.table() == {}


def test_a_table_is_of_one_topic(load: Load, new_topic: NewTopic) -> None:
    load.write({"a": "1"})
    load.run()
    first, load.topic = load.topic, new_topic()
    with pytest.raises(OtherTopic, match="A target is of one topic"):
        load.run()
    load.topic = first
    before = look_up(load.client, load.topic)
    load.client.delete_topic(load.topic)
    load.client.create_topic(load.topic, 3)
    with pytest.raises(OtherTopic, match=f"{before.topic_id}.* created again"):
        load.run()


def test_what_is_no_landing_s_table_is_left_alone(load: Load) -> None:
    load.write({"a": "1"})
    DeltaTable.create(load.folder, pa.schema({"key": pa.binary()}))
    with pytest.raises(LandingRefused, match="no topic was landed in"):
        load.run()


def test_records_are_appended_once(
    load: Load, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    load.write({f"key-{number}": None if number % 3 else "first" for number in range(20)})
    with monkeypatch.context() as patched:
        dying = killed_once(delta.write_files, tmp_path / "killed")
        patched.setattr(delta, "write_files", dying)
        assert load.run(batch_offsets=12, mode="append").batches == 2
    assert (tmp_path / "killed").exists()
    load.write({"key-1": "second"})
    load.run(mode="append")
    assert load.run(mode="append").batches == 0
    columns = ["partition", "offset", "timestamp", "key", "value"]
    order = [("partition", "ascending"), ("offset", "ascending")]
    landed = DeltaTable(load.folder).to_pyarrow_table().select(columns).sort_by(order)
    wanted = load.client.read(load.topic, columns=columns).sort_by(order)
    assert (
        landed.select(["partition", "offset", "key", "value"]).to_pylist()
        == wanted.select(["partition", "offset", "key", "value"]).to_pylist()
    )
    with pytest.raises(LandingRefused, match="begun in mode 'append'"):
        load.run(mode="upsert")


def test_of_two_runs_that_make_the_table_one_fails(load: Load) -> None:
    load.write({"a": "1"})
    rival = Table(load.folder, "append")
    assert rival.position([0, 1, 2]) is None
    load.run(mode="append")
    source = look_up(load.client, load.topic)
    batch = Batch(load, "append")
    with pytest.raises(OtherRun, match="has made"):
        rival.add(batch, Position(source.topic, source.topic_id, load.client.offsets(load.topic)))


def test_the_position_outlives_the_history(load: Load) -> None:
    """It is part of the table's state, not of what its commits say of themselves."""
    load.write({"a": "1", "b": "1"})
    load.run()
    table = DeltaTable(load.folder)
    table.create_checkpoint()
    for entry in Path(load.folder, "_delta_log").glob("*.json"):
        entry.unlink()
    ends = load.client.offsets(load.topic)
    found = Table(load.folder, "upsert").position([0, 1, 2])
    assert found is not None
    assert found.offsets == ends


@pytest.mark.parametrize("is_committed", [pytest.param(False, marks=pytest.mark.deep), True])
def test_a_driver_that_dies_beside_its_commit(
    load: Load, monkeypatch: pytest.MonkeyPatch, *, is_committed: bool
) -> None:
    load.write({"a": "1", "b": "1"})
    add = Table.add

    def dying(*arguments: Any) -> None:
        if is_committed:
            add(*arguments)
        raise OSError("the driver has died")

    with monkeypatch.context() as patched:
        patched.setattr(Table, "add", dying)
        with pytest.raises(OSError, match="the driver has died"):
            load.run()
    load.write({"a": "2"})
    assert load.run().offsets == 3 - 2 * is_committed
    assert load.table() == {"a": "2", "b": "1"}


class Batch:
    """All of a topic, as one who plans it gives it."""

    def __init__(self, load: Load, mode: Mode) -> None:
        self._load, self.rows, self.is_whole = load, Rows.of(mode), False

    def map(self, function: BatchFunction, schema: str) -> DataFrame:
        rows, load = self.rows, self._load
        given = {"bootstrap": load.address, "columns": rows.read}
        return map_batches(
            load.spark, load.topic, lambda batches: function(rows(batches)), schema, **given
        )

    def confirm(self) -> None:
        """The topic is what it was."""


def test_of_two_runs_at_once_one_fails(load: Load) -> None:
    load.write({"a": "1"})
    load.run()
    rival = Table(load.folder, "upsert")
    rival.position([0, 1, 2])
    load.write({"a": "2"})
    load.run()
    version = load.version()
    source = look_up(load.client, load.topic)
    with pytest.raises(OtherRun):
        rival.add(
            Batch(load, "upsert"),
            Position(source.topic, source.topic_id, load.client.offsets(load.topic)),
        )
    assert load.version() == version
