"""An Iceberg table: every record of a topic, or the last value of each key.

The topic, and the offsets that the table has reached, are in the summary of the snapshot that added
the records. `told` reads them there, so a table that was rolled back continues from the offsets of
that snapshot. Snapshots of other writers have no offsets, and old snapshots expire, so the table's
properties hold the offsets as well.

In upsert mode the table is partitioned by `bucket(N, key)`. A batch rewrites only the buckets of
its keys, and each task rewrites its buckets one after the other (copy-on-write). So there are no
equality or positional deletes that readers would have to support. A deleted key has no row.

Spark's tasks write all files (`iceberg_files.py`). The driver commits the file names, and checks
immediately before that no other run has landed since: pyiceberg retries a commit that conflicts
with another one, which is correct only if the other one was maintenance.
"""

from __future__ import annotations

import json
import pickle
import uuid
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
    ValidationException,
)
from pyiceberg.io.pyarrow import _pyarrow_to_schema_without_ids, schema_to_pyarrow
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.table import FileScanTask, Table, Transaction
from pyiceberg.table.snapshots import Operation, Snapshot
from pyiceberg.table.update.snapshot import _MergeAppendFiles, _OverwriteFiles
from pyiceberg.transforms import BucketTransform, DayTransform, HourTransform, Transform

from drumlin.spark.landing.rows.mode import TOMBSTONE, Mode, Period
from drumlin.spark.landing.rows.reduced import PACKED, packed
from drumlin.spark.landing.rows.rows import Rows
from drumlin.spark.landing.targets.columns import agreed_period, missing_columns
from drumlin.spark.landing.targets.iceberg_compaction import compacted
from drumlin.spark.landing.targets.iceberg_files import (
    REWRITTEN,
    WRITTEN,
    Writing,
    append_files,
    iceberg_bucket,
    rewrite_bucket,
)
from drumlin.spark.landing.targets.target import Added, Batch, LandingRefused, OtherRun, Position

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile, ManifestFile
    from pyiceberg.table.metadata import TableMetadata
    from pyspark.sql import DataFrame

#: Enough for some millions of keys. With more keys, choose it by the memory of a task.
BUCKETS: Final = 16
_TOPIC: Final = "drumlin.topic"
_TOPIC_ID: Final = "drumlin.topic-id"
_MODE: Final = "drumlin.mode"
_OFFSETS: Final = "drumlin.offsets"
_BEFORE: Final = "drumlin.offsets-before"
_COMMIT: Final = "drumlin.commit"
_AT_END: Final = "drumlin.at-end-ms"

#: The ids of the columns: the first ones of the table, in the order of `Rows.schema`.
_TIMESTAMP: Final = 3
_KEY: Final = 4
_TRANSFORMS: Final[dict[Period, Transform[Any, Any]]] = {
    "day": DayTransform(),
    "hour": HourTransform(),
}


class Told(NamedTuple):
    """The progress of the landing, as stored in the table."""

    position: Position
    #: The id of the commit that stored `position`; "" if no batch was committed yet.
    commit: str


class IcebergTable:
    """An Iceberg table, used by one run."""

    def __init__(
        self,
        catalog: str,
        name: Sequence[str],
        mode: Mode,
        buckets: int,
        period: Period | None = None,
    ) -> None:
        """
        Args:
            catalog: the catalog's name in pyiceberg's configuration.
            name: the namespace, and then the table's name.
            buckets: the number of buckets, if an upsert table is created.
            period: the period by which the rows of an append table are partitioned.
        """
        self._catalog_name, self._name, self._mode = catalog, tuple(name), mode
        self._buckets, self._period = buckets, period
        self._shown = f"{'.'.join(name)} in the catalog {catalog!r}"
        self._catalog: Catalog | None = None
        self._table: Table | None = None

    def position(self, _partitions: Collection[int] = ()) -> Position | None:
        with self._asked() as catalog:
            try:
                self._table = catalog.load_table(self._name)
            except (NoSuchTableError, NoSuchNamespaceError):
                self._table = None
                return None
        self._check(self._table)
        return told(self._table.metadata).position

    def complete(self) -> None:
        """Do nothing: a commit is all or nothing."""

    def add(self, batch: Batch, position: Position) -> Added:
        table = self.opened(batch.rows, position)
        if self._mode == "append":
            return self._append(table, batch, position)
        return self._upsert(table, batch, position)

    def compact(self) -> None:
        """Merge small files. (In mode `upsert` a bucket is one file.)"""
        if self._table is None or self._mode == "upsert":
            return
        table = self._table.refresh()
        if not (merged := compacted(table)):
            return
        transaction = table.transaction()
        with self._snapshot(transaction, {}, is_rewrite=True) as snapshot:
            for gone, made in merged:
                for each in gone:
                    snapshot.delete_data_file(each)
                snapshot.append_data_file(made)
        # If another writer has changed the table meanwhile, the next round tries again.
        with suppress(CommitFailedException, ValidationException):
            transaction.commit_transaction()

    def close(self) -> None:
        """Forget catalog and table; no resource is held."""
        self._catalog = self._table = None

    def _append(self, table: Table, batch: Batch, position: Position) -> Added:
        write = partial(append_files, Writing.of(table), self._period)
        found = batch.map(write, WRITTEN).collect()
        added = [pickle.loads(each.file) for each in found]  # noqa: S301 - our own tasks made it
        self.show(batch, position, added)
        return _added(added)

    def _upsert(self, table: Table, batch: Batch, position: Position) -> Added:
        held = self.files_by_bucket()
        kept = {} if batch.is_whole else held
        buckets = _bucket_count(table)
        changes = batch.map(partial(packed, partial(iceberg_bucket, buckets)), PACKED)
        # Without a number, Spark would coalesce a small shuffle, and one task write all buckets.
        tasks = min(buckets, _shuffle_partitions(changes))
        writing, rows = Writing.of(table), batch.rows

        def rewrite(changes: pa.Table) -> pa.Table:  # Spark inspects the number of arguments
            return rewrite_bucket(writing, rows, kept, changes)

        grouped = changes.repartition(tasks, "bucket").groupBy("bucket")
        found = grouped.applyInArrow(rewrite, REWRITTEN).collect()
        rewritten = held if batch.is_whole else [each.bucket for each in found]
        removed = [task.file for bucket in rewritten for task in held.get(bucket, ())]
        added = [pickle.loads(each.file) for each in found if each.file]  # noqa: S301 - likewise
        self.show(batch, position, added, removed)
        return _added(added)

    def files_by_bucket(self) -> dict[int, list[FileScanTask]]:
        """
        Raises:
            LandingRefused: files were written under another partition spec.
        """
        assert self._table is not None
        table = self._table
        found: dict[int, list[FileScanTask]] = {}
        for task in table.scan().plan_files():
            if task.file.spec_id != table.metadata.default_spec_id:
                raise LandingRefused(f"{self._shown} has files that are divided in another way")
            found.setdefault(task.file.partition[0], []).append(task)
        return found

    def show(
        self,
        batch: Batch,
        position: Position,
        added: Collection[DataFile],
        removed: Collection[DataFile] = (),
    ) -> None:
        """Commit a snapshot with these files and this position.

        Raises:
            OtherRun: another run has landed since the position was read.
        """
        assert self._table is not None
        table = self._table
        before, commit = told(table.metadata), uuid.uuid4().hex
        summary = {
            _TOPIC: position.topic,
            _TOPIC_ID: position.topic_id,
            _BEFORE: json.dumps(before.position.offsets),
            _OFFSETS: json.dumps(position.offsets),
            _COMMIT: commit,
        }
        if position.at_end_ms is not None:
            summary[_AT_END] = str(position.at_end_ms)
        checked = _Checked.of(table, {before.commit, commit})
        try:
            transaction = checked.transaction()
            transaction.set_properties(
                {name: summary[name] for name in (_OFFSETS, _COMMIT, _AT_END) if name in summary}
            )
            # Create a snapshot even without records: so that of two concurrent commits, the second
            # one is detected.
            with self._snapshot(transaction, summary, is_rewrite=bool(removed)) as snapshot:
                for each in removed:
                    snapshot.delete_data_file(each)
                for each in added:
                    snapshot.append_data_file(each)
            batch.confirm()
            transaction.commit_transaction()
        except (CommitFailedException, ValidationException) as error:
            raise OtherRun(f"{self._shown} was changed meanwhile: {error}") from error

    @staticmethod
    def _snapshot(
        transaction: Transaction, summary: dict[str, str], *, is_rewrite: bool
    ) -> _Rewrite | _MergeAppendFiles:
        if not is_rewrite:
            return transaction.update_snapshot(snapshot_properties=summary).merge_append()
        return _Rewrite(
            Operation.OVERWRITE, transaction, transaction._table.io, snapshot_properties=summary
        )

    def opened(self, rows: Rows, position: Position) -> Table:
        """The table, with columns for these rows; created if it does not exist.

        Raises:
            OtherRun: another run has created the table meanwhile.
            LandingRefused: a column of the table has another type.
        """
        if self._table is None:
            self._table = self._made(rows, position)
        else:
            self._add_columns(self._table, rows)
        return self._table

    def _made(self, rows: Rows, position: Position) -> Table:
        """
        Raises:
            OtherRun: another run has created the table meanwhile.
        """
        properties = {
            _TOPIC: position.topic,
            _TOPIC_ID: position.topic_id,
            _MODE: self._mode,
            # Bounds of values would be useless: no query filters by a value's first bytes.
            "write.metadata.metrics.column.value": "counts",
            "commit.manifest-merge.enabled": "true",
            "write.metadata.delete-after-commit.enabled": "true",
        }
        spec = UNPARTITIONED_PARTITION_SPEC
        if self._mode == "upsert":
            bucket = PartitionField(_KEY, 1000, BucketTransform(self._buckets), "key_bucket")
            spec = PartitionSpec(bucket)
        elif self._period is not None:
            name, transform = f"timestamp_{self._period}", _TRANSFORMS[self._period]
            spec = PartitionSpec(PartitionField(_TIMESTAMP, 1000, transform, name))
        schema = columns_of(rows)
        with self._asked() as catalog:
            catalog.create_namespace_if_not_exists(self._name[:-1])
            try:
                return catalog.create_table(
                    self._name, schema, partition_spec=spec, properties=properties
                )
            except TableAlreadyExistsError as error:
                raise OtherRun(f"another run has made {self._shown} meanwhile") from error

    def _add_columns(self, table: Table, rows: Rows) -> None:
        """Add the columns that are missing; existing rows have null in them.

        Raises:
            LandingRefused: a column of the table has another type.
        """
        wanted = columns_of(rows)
        there, kinds = (
            {each.name: each.type for each in schema_to_pyarrow(schema, include_field_ids=False)}
            for schema in (table.schema(), wanted)
        )
        if missing_columns(there, kinds, rows, self._shown):
            with table.update_schema() as update:
                update.union_by_name(wanted)

    def _check(self, table: Table) -> None:
        """
        Raises:
            LandingRefused: the table was not created by a landing, is in the other mode, or has
                another partition spec or other columns.
        """
        properties = table.properties
        if _TOPIC not in properties:
            raise LandingRefused(f"{self._shown} is a table that no topic was landed in")
        if (mode := properties.get(_MODE)) != self._mode:
            raise LandingRefused(
                f"{self._shown} was begun in mode {mode!r}, and cannot go on in {self._mode!r}"
            )
        self._check_division(table)
        there = [(each.field_id, each.name, each.field_type) for each in table.schema().fields]
        for field in columns_of(Rows.of(self._mode)).fields[:_KEY]:
            if (field.field_id, field.name, field.field_type) not in there:
                raise LandingRefused(
                    f"{self._shown} has no column {field.name!r} of {field.field_type} any more"
                )

    def _check_division(self, table: Table) -> None:
        """
        Raises:
            LandingRefused: the table has another partition spec than this mode and period.
        """
        wrong = f"{self._shown} is divided in another way than a landing does it"
        if self._mode == "upsert":
            if _bucket_count(table) == 0:
                raise LandingRefused(wrong)
            return
        found = [(each.source_id, each.transform) for each in table.spec().fields]
        held: dict[Period | None, list[Any]] = {None: []}
        held |= {period: [(_TIMESTAMP, each)] for period, each in _TRANSFORMS.items()}
        periods = [period for period, fields in held.items() if fields == found]
        if not periods:
            raise LandingRefused(wrong)
        self._period = agreed_period(self._period, periods[0], self._shown)

    @contextmanager
    def _asked(self) -> Iterator[Catalog]:
        """The catalog. Its errors are raised as `LandingRefused`, with the catalog's name."""
        try:
            if self._catalog is None:
                self._catalog = load_catalog(self._catalog_name)
            yield self._catalog
        except LandingRefused:
            raise
        except Exception as error:  # the errors of catalogs have no common class
            raise LandingRefused(f"catalog {self._catalog_name!r}: {error}") from error


class _Rewrite(_OverwriteFiles):
    """A snapshot that replaces files.

    pyiceberg's own class also keeps manifests whose files are all deleted: their number would grow
    with each snapshot.
    """

    def _existing_manifests(self) -> list[ManifestFile]:
        found = super()._existing_manifests()
        return [each for each in found if each.has_added_files() or each.has_existing_files()]


class _Checked(Table):
    """A table whose refresh fails if another run has landed in it.

    pyiceberg refreshes the table before it retries a commit.
    """

    _known: set[str]

    @classmethod
    def of(cls, table: Table, known: set[str]) -> Self:
        """
        Args:
            known: the ids of the commit that the batch continues from, and of its own commit.
        """
        location = table.metadata_location
        made = cls(table.name(), table.metadata, location, table.io, table.catalog)
        made._known = known
        return made

    def refresh(self) -> Table:
        """
        Raises:
            OtherRun: another run has landed.
        """
        now = super().refresh()
        if told(self.metadata).commit not in self._known:
            raise OtherRun(f"another run has landed in {'.'.join(self.name())} meanwhile")
        return now


def columns_of(rows: Rows) -> Schema:
    """The columns of a table, with the ids that they have in a new one."""
    fields = list(rows.schema)
    if rows.mode == "upsert":  # a tombstone has no row
        fields = [each for each in fields if each.name != TOMBSTONE]
        if not rows.is_typed:
            fields[_KEY] = fields[_KEY].with_nullable(False)
    return assign_fresh_schema_ids(_pyarrow_to_schema_without_ids(pa.schema(fields)))


def _added(files: Collection[DataFile]) -> Added:
    rows = sum(each.record_count for each in files)
    return Added(rows, sum(each.file_size_in_bytes for each in files))


def _shuffle_partitions(frame: DataFrame) -> int:
    found = frame.sparkSession.conf.get("spark.sql.shuffle.partitions")
    assert found is not None, "it has a default"
    return int(found)


def _bucket_count(table: Table) -> int:
    """The number of buckets; 0 if the table is not partitioned by `bucket(N, key)` alone."""
    found = [(each.source_id, each.transform) for each in table.spec().fields]
    if len(found) == 1 and found[0][0] == _KEY and isinstance(found[0][1], BucketTransform):
        return found[0][1].num_buckets
    return 0


def told(metadata: TableMetadata) -> Told:
    """The progress stored in the newest snapshot that has it, or else in the properties.

    Raises:
        LandingRefused: the table was rolled back, and no ancestor that is left stores offsets.
    """
    snapshot = metadata.current_snapshot()
    while snapshot is not None:
        found = _summary(snapshot)
        if _OFFSETS in found:
            return _told(found)
        if snapshot.sequence_number == 1:  # the first snapshot: nothing has landed in this history
            return Told(_told(metadata.properties).position._replace(offsets={}), "")
        # If the parent has expired, the parent id may be missing as well.
        parent = snapshot.parent_snapshot_id
        snapshot = None if parent is None else metadata.snapshot_by_id(parent)
    newest = _told(metadata.properties)
    if newest.commit and any(
        _summary(each).get(_COMMIT) == newest.commit for each in metadata.snapshots
    ):
        raise LandingRefused(
            f"{metadata.location} was rolled back to a snapshot that does not tell its offsets: "
            f"roll it back to one with {_OFFSETS!r} in its summary"
        )
    return newest


def _summary(snapshot: Snapshot) -> dict[str, str]:
    return snapshot.summary.additional_properties if snapshot.summary else {}


def _told(found: dict[str, str]) -> Told:
    offsets = {int(each): end for each, end in json.loads(found.get(_OFFSETS, "{}")).items()}
    at_end_ms = int(found[_AT_END]) if _AT_END in found else None
    position = Position(found[_TOPIC], found[_TOPIC_ID], offsets, at_end_ms)
    return Told(position, found.get(_COMMIT, ""))
