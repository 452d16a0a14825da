"""An Iceberg table as one run sees it, without Spark: what tasks do is done here."""

from __future__ import annotations

import pickle
import random
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.expressions import EqualTo
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask, Table
from pyiceberg.types import IntegerType, NestedField

from drumlin.spark.landing.rows.mode import Mode
from drumlin.spark.landing.rows.reduced import packed
from drumlin.spark.landing.rows.rows import Rows
from drumlin.spark.landing.targets import iceberg
from drumlin.spark.landing.targets.iceberg import IcebergTable
from drumlin.spark.landing.targets.iceberg_files import (
    Writing,
    append_files,
    iceberg_bucket,
    rewrite_bucket,
)
from drumlin.spark.landing.targets.target import LandingRefused, OtherRun, Position

#: A topic's name may have dots.
NAME = ("kept", "users.v1")
BUCKETS = 4
SCHEMA = pa.schema(
    {
        "partition": pa.int32(),
        "offset": pa.int64(),
        "timestamp": pa.timestamp("us", "UTC"),
        "key": pa.binary(),
        "value": pa.binary(),
        "headers": pa.list_(pa.struct({"key": pa.string(), "value": pa.binary()})),
    }
)
#: partition -> key -> value, in this order.
Written = Mapping[int, list[tuple[bytes | None, bytes | None]]]


class Lake:
    """A catalog with a table, and one who lands a topic of three partitions in it."""

    def __init__(self, catalog: Catalog, mode: Mode) -> None:
        self.catalog, self.mode = catalog, mode
        self.rows, self.is_whole = Rows.of(mode), False
        self.ends = {0: 0, 1: 0, 2: 0}
        self.records: list[dict[str, Any]] = []

    def write(self, written: Written) -> pa.Table:
        """Records of a batch, later ones at later times."""
        rows = [
            {
                "partition": partition,
                "offset": self.ends[partition] + number,
                "timestamp": len(self.records) + number,
                "key": key,
                "value": value,
                "headers": [{"key": "h", "value": b"1"}],
            }
            for partition, records in written.items()
            for number, (key, value) in enumerate(records)
        ]
        self.records += rows
        self.ends |= {each: self.ends[each] + len(found) for each, found in written.items()}
        return pa.Table.from_pylist(rows, SCHEMA)

    def run(self) -> IcebergTable:
        return IcebergTable("lake", NAME, self.mode, BUCKETS)

    def land(self, written: Written) -> None:
        run = self.run()
        run.position()
        self.add(run, self.write(written))

    def add(self, run: IcebergTable, records: pa.Table) -> None:
        table = run.opened(self.rows, self.position())
        writing, batches = Writing.of(table), self.rows(iter(records.to_batches(max_chunksize=7)))
        if self.mode == "append":
            found = [
                pickle.loads(each)
                for told in append_files(writing, None, batches)
                for each in told["file"].to_pylist()
            ]
            run.show(self, self.position(), found)
            return
        held, added, removed = run.files_by_bucket(), [], []
        changes = pa.concat_tables(packed(partial(iceberg_bucket, BUCKETS), batches))
        for bucket in set(changes["bucket"].to_pylist()):
            of_bucket = changes.filter(pc.equal(changes["bucket"], bucket))
            for row in rewrite_bucket(writing, self.rows, held, of_bucket).to_pylist():
                removed += [each.file for each in held.get(bucket, ())]
                added += [pickle.loads(row["file"])] if row["file"] else []
        run.show(self, self.position(), added, removed)

    def position(self) -> Position:
        return Position("users", "id", dict(self.ends), 1000 + sum(self.ends.values()))

    def table(self) -> Table:
        return self.catalog.load_table(NAME)

    def state(self) -> dict[bytes, bytes]:
        found = self.table().scan().to_arrow().to_pylist()
        state = {row["key"]: row["value"] for row in found}
        assert len(state) == len(found)
        return state

    def files(self) -> set[str]:
        return {task.file.file_path for task in self.table().scan().plan_files()}

    def confirm(self) -> None:
        """The topic is what it was."""

    map: Any = None


@pytest.fixture
def catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Catalog:
    """One on SQLite. pyiceberg reads its configuration once, when it is imported."""
    where = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/warehouse"}
    monkeypatch.setattr(iceberg, "load_catalog", lambda name: load_catalog(name, **where))
    return load_catalog("lake", **where)


@pytest.fixture
def upserted(catalog: Catalog) -> Lake:
    return Lake(catalog, "upsert")


@pytest.fixture
def appended(catalog: Catalog) -> Lake:
    return Lake(catalog, "append")


def test_the_table_is_the_last_value_of_each_key(upserted: Lake) -> None:
    chance, state = random.Random(1), dict[bytes, bytes]()
    for _ in range(12):
        written: dict[int, list[tuple[bytes | None, bytes | None]]] = {0: [], 1: [], 2: []}
        for _ in range(chance.randrange(1, 20)):
            number = chance.randrange(40)
            key, value = b"%d" % number, b"%d" % chance.randrange(10**6)
            is_deletion = chance.random() < 0.3
            written[number % 3].append((key, None if is_deletion else value))
            state.pop(key, None) if is_deletion else state.update({key: value})
        written[0].append((None, b"no key"))
        upserted.land(written)
        assert upserted.state() == state
    assert upserted.run().position() == upserted.position()


def test_every_record_is_a_row(appended: Lake) -> None:
    appended.land({0: [(b"a", b"1"), (b"a", None)], 2: [(None, b"3")]})
    appended.land({0: [(b"a", b"1")]})
    found = appended.table().scan().to_arrow().select(SCHEMA.names).cast(SCHEMA)
    assert sorted(found.to_pylist(), key=str) == sorted(
        pa.Table.from_pylist(appended.records, SCHEMA).to_pylist(), key=str
    )
    assert len(appended.files()) == 3


def test_only_buckets_with_a_change_are_rewritten(upserted: Lake) -> None:
    upserted.land({0: [(b"%d" % number, b"1") for number in range(20)]})
    before = upserted.files()
    assert len(before) == BUCKETS
    upserted.land({0: [(b"1", b"2")]})
    assert len(before - upserted.files()) == 1
    before = upserted.files()
    upserted.land({0: [(b"never there", None)], 1: [(None, b"")]})
    assert upserted.files() == before
    assert upserted.run().position() == upserted.position()
    upserted.land({0: [(key, None) for key in upserted.state()]})
    assert not upserted.files()


def test_a_reader_of_a_key_looks_into_one_bucket(upserted: Lake) -> None:
    upserted.land({0: [(b"%d" % number, b"1") for number in range(40)]})
    for key in upserted.state():
        found = upserted.table().scan(EqualTo("key", key))
        assert len(list(found.plan_files())) == 1
        assert found.to_arrow()["key"].to_pylist() == [key]


def test_manifests_of_files_that_are_gone_go_as_well(upserted: Lake) -> None:
    for number in range(5):
        upserted.land({0: [(b"%d" % each, b"%d" % number) for each in range(20)]})
    snapshot = upserted.table().current_snapshot()
    assert snapshot is not None
    assert len(snapshot.manifests(upserted.table().io)) == 2


def test_each_snapshot_tells_its_offsets(upserted: Lake) -> None:
    upserted.land({0: [(b"a", b"1")]})
    upserted.land({0: [(b"a", b"2")], 1: [(b"b", b"2")]})
    snapshot = upserted.table().current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    told = snapshot.summary.additional_properties
    assert told["drumlin.topic"] == "users"
    assert told["drumlin.topic-id"] == "id"
    assert told["drumlin.offsets-before"] == '{"0": 1, "1": 0, "2": 0}'
    assert told["drumlin.offsets"] == '{"0": 2, "1": 1, "2": 0}'


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_of_two_runs_at_once_one_fails(catalog: Catalog, mode: Mode) -> None:
    lake = Lake(catalog, mode)
    lake.land({0: [(b"a", b"1")]})
    late = lake.run()
    late.position()
    records = lake.write({0: [(b"a", b"2"), (b"b", b"2")]})
    first = lake.run()
    first.position()
    lake.add(first, records)
    before = lake.table().metadata
    with pytest.raises(OtherRun, match="another run has landed"):
        lake.add(late, records)
    assert lake.table().metadata == before


def test_of_two_runs_that_make_the_table_one_fails(appended: Lake) -> None:
    late = appended.run()
    assert late.position() is None
    appended.land({0: [(b"a", b"1")]})
    with pytest.raises(OtherRun, match="has made"):
        appended.add(late, appended.write({}))


def test_what_others_do_meanwhile_is_no_reason_to_fail(appended: Lake) -> None:
    """Properties, and rows in snapshots of others."""
    appended.land({0: [(b"a", b"1")]})
    run = appended.run()
    run.position()
    table = appended.table()
    table.append(table.scan().to_arrow())
    appended.add(run, appended.write({0: [(b"b", b"2")]}))
    assert len(appended.table().scan().to_arrow()) == 3
    assert appended.run().position() == appended.position()


def test_a_bucket_that_others_have_changed_meanwhile(upserted: Lake) -> None:
    upserted.land({0: [(b"a", b"1")]})
    run = upserted.run()
    run.position()
    upserted.table().delete()
    before = upserted.position()
    with pytest.raises(OtherRun, match="was changed meanwhile"):
        upserted.add(run, upserted.write({0: [(b"a", b"2")]}))
    assert upserted.run().position() == before
    assert not upserted.state()


def _keys(files: list[FileScanTask]) -> list[bytes]:
    paths = [each.file.file_path.removeprefix("file://") for each in files]
    return pq.read_table(paths)["key"].to_pylist()


def test_rows_that_others_delete_stay_deleted(upserted: Lake) -> None:
    upserted.land({0: [(b"%d" % number, b"1") for number in range(20)]})
    table, others = upserted.table(), upserted.run()
    others.position()
    ((bucket, (task,)),) = (
        each for each in others.files_by_bucket().items() if b"7" in _keys(each[1])
    )
    deletion = {"partition": 0, "offset": 100, "timestamp": 0, "key": b"7", "value": None}
    rows = upserted.rows(iter(pa.Table.from_pylist([deletion], SCHEMA).to_batches()))
    (change,) = packed(partial(iceberg_bucket, BUCKETS), rows)
    (found,) = rewrite_bucket(
        Writing.of(table), upserted.rows, {bucket: [task]}, change
    ).to_pylist()
    with table.transaction() as transaction, transaction.update_snapshot().overwrite() as snapshot:
        snapshot.delete_data_file(task.file)
        snapshot.append_data_file(pickle.loads(found["file"]))
    assert b"7" not in upserted.state()
    upserted.land({0: [(b"%d" % number, b"2") for number in range(20) if number != 7]})
    assert upserted.state() == {b"%d" % number: b"2" for number in range(20) if number != 7}


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_a_commit_whose_answer_is_lost_counts_once(
    catalog: Catalog, mode: Mode, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake(catalog, mode)
    lake.land({0: [(b"a", b"1")]})
    commit = Table._do_commit

    def lost(*arguments: Any, **named: Any) -> None:
        commit(*arguments, **named)
        raise CommitFailedException("so says the catalog")

    with monkeypatch.context() as patched:
        patched.setattr(Table, "_do_commit", lost)
        lake.land({0: [(b"b", b"2")]})
    assert len(lake.table().history()) == 2
    assert len(lake.table().scan().to_arrow()) == 2
    assert lake.run().position() == lake.position()


def test_a_table_that_is_rolled_back_goes_on_from_there(upserted: Lake) -> None:
    upserted.land({0: [(b"a", b"1")]})
    held, snapshot = upserted.position(), upserted.table().current_snapshot()
    assert snapshot is not None
    upserted.land({0: [(b"a", b"2")]})
    upserted.table().manage_snapshots().rollback_to_snapshot(snapshot.snapshot_id).commit()
    assert upserted.state() == {b"a": b"1"}
    assert upserted.run().position() == held


def test_the_position_outlives_the_history(appended: Lake) -> None:
    """It is in the properties as well, for when only snapshots of others are left."""
    appended.land({0: [(b"a", b"1")]})
    table = appended.table()
    table.append(table.scan().to_arrow())
    old = table.history()[0].snapshot_id
    table.maintenance.expire_snapshots().by_id(old).commit()
    assert len(appended.table().snapshots()) == 1
    assert appended.run().position() == appended.position()
    only = appended.table().snapshots()[0].snapshot_id
    appended.land({0: [(b"b", b"1")]})
    appended.table().manage_snapshots().rollback_to_snapshot(only).commit()
    with pytest.raises(LandingRefused, match="rolled back to a snapshot that does not tell"):
        appended.run().position()


def test_what_is_no_landing_s_table_is_left_alone(catalog: Catalog) -> None:
    catalog.create_namespace("kept")
    catalog.create_table(NAME, Schema(NestedField(1, "key", IntegerType(), required=False)))
    with pytest.raises(LandingRefused, match="no topic was landed in"):
        IcebergTable("lake", NAME, "append", BUCKETS).position()


def test_a_table_that_was_changed_is_refused(appended: Lake, upserted: Lake) -> None:
    appended.land({0: [(b"a", b"1")]})
    with pytest.raises(LandingRefused, match=r"begun in mode 'append'.*'upsert'"):
        upserted.run().position()
    with appended.table().update_schema() as update:
        update.add_column("note", IntegerType())
    appended.land({0: [(b"b", b"1")]})
    with appended.table().update_schema() as update:
        update.rename_column("value", "content")
    with pytest.raises(LandingRefused, match="no column 'value' of"):
        appended.land({0: [(b"c", b"1")]})


def test_a_table_that_is_divided_otherwise_is_refused(upserted: Lake) -> None:
    upserted.land({0: [(b"a", b"1")]})
    with upserted.table().update_spec() as update:
        update.remove_field("key_bucket")
    with pytest.raises(LandingRefused, match="divided in another way"):
        upserted.run().position()


def test_a_catalog_that_is_unknown_is_named() -> None:
    with pytest.raises(LandingRefused, match="catalog 'nowhere': URI missing"):
        IcebergTable("nowhere", NAME, "append", BUCKETS).position()
