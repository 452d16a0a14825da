"""A Delta table: every record of a topic, or the last value of each key.

Each commit also stores the offsets that the table has reached, in Delta's own way: as the version
of an application transaction (`txn`), one for each partition. Delta refuses a commit if another
commit has changed these versions meanwhile, so of two concurrent runs one fails. The table's
description names the topic.

In upsert mode a deleted key keeps its row, without a value. Within a partition, offsets order the
records of a key. But if partitions were added to the topic, an older record of the key may still
arrive from another partition. Then the latest timestamp wins, as there is no better order.

The package `deltalake` writes the table, so neither a jar nor a Spark session with Delta is needed.
In append mode the tasks that read the records write them, and the driver commits. In upsert mode
tasks reduce the records to the last one of each key; the merge runs in the driver, on all of its
cores, with the batch in its memory.
"""

from __future__ import annotations

import contextlib
import json
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, TableNotFoundError
from deltalake.fs import DeltaStorageHandler
from deltalake.transaction import AddAction
from pyarrow import fs

from drumlin.client.errors import ClientError
from drumlin.spark.landing.rows.mode import Mode, Period
from drumlin.spark.landing.rows.record_files import WRITTEN, ArrowFolder, write_file, write_files
from drumlin.spark.landing.rows.reduced import PACKED, crc_bucket, packed, unpacked
from drumlin.spark.landing.rows.rows import Rows, aligned
from drumlin.spark.landing.rows.small_files import FEW, SMALL_BYTES
from drumlin.spark.landing.rows.times import PERIOD_COLUMNS, period_values
from drumlin.spark.landing.targets.columns import agreed_period, missing_columns
from drumlin.spark.landing.targets.target import (
    NOTHING,
    Added,
    Batch,
    LandingRefused,
    OtherRun,
    Position,
)

if TYPE_CHECKING:
    from deltalake.transaction import RemoveAction
    from pyspark.sql import Row

_AT_END: Final = "at-end-ms"
#: The id of a commit, by which a run recognises its own: others may commit before it looks.
_COMMIT: Final = "drumlin.commit"
_LOOKED_AT: Final = 20
#: The number of a compacted log's offsets that one task reduces to the last record of each key.
_OFFSETS_IN_TASK: Final = 500_000
_PERIODS: Final = {
    tuple(each.name for each in columns): period for period, columns in PERIOD_COLUMNS.items()
}
#: Records of the same partition arrive in order. Between partitions, the later timestamp wins.
_IS_LATER: Final = """
new.partition = old.partition OR new.timestamp > old.timestamp
OR (new.timestamp = old.timestamp AND new.partition > old.partition)
"""


class Table:
    """A Delta table, used by one run."""

    def __init__(
        self,
        url: str,
        mode: Mode,
        period: Period | None = None,
        options: Callable[[], dict[str, str]] | None = None,
    ) -> None:
        """
        Args:
            options: returns the current options for S3, if the table is in S3.
        """
        self._url, self._mode, self._period, self._current = url, mode, period, options
        self._options: dict[str, str] | None = None
        self._table: DeltaTable | None = None

    def position(self, partitions: Collection[int]) -> Position | None:
        if self._current is not None:
            self._options = self._current()
        with self._told():
            try:
                self._table = DeltaTable(self._url, storage_options=self._options)
            except TableNotFoundError:
                return None
        topic, topic_id = self._described(self._table)
        reached = {
            each: self._table.transaction_version(_application(topic, each)) for each in partitions
        }
        offsets = {each: offset for each, offset in reached.items() if offset is not None}
        at_end_ms = self._table.transaction_version(_application(topic, _AT_END))
        return Position(topic, topic_id, offsets, at_end_ms)

    def complete(self) -> None:
        """Do nothing: a commit is all or nothing."""

    def add(self, batch: Batch, position: Position) -> Added:
        versions: dict[int | str, int] = dict(position.offsets.items())
        if position.at_end_ms is not None:
            versions[_AT_END] = position.at_end_ms
        commit = uuid.uuid4().hex
        told = CommitProperties(
            custom_metadata={_COMMIT: commit},
            app_transactions=[
                Transaction(_application(position.topic, each), version)
                for each, version in versions.items()
            ],
        )
        with self._told():
            try:
                table = self._opened(position, batch.rows)
                if self._mode == "append":
                    return self._append(table, batch, told)
                if batch.is_whole:
                    return self._replace(table, batch, position, told)
                return self._merge(table, batch, told)
            except CommitFailedError:
                newest = DeltaTable(self._url, storage_options=self._options).history(_LOOKED_AT)
                if any(each.get(_COMMIT) == commit for each in newest):
                    return NOTHING  # the commit succeeded: only its response was lost
                raise

    def compact(self) -> None:
        """Merge small files."""
        if self._table is None:
            return
        self._table.update_incremental()
        sizes = pa.table(self._table.get_add_actions())["size_bytes"].to_pylist()
        if sum(size < SMALL_BYTES for size in sizes) >= FEW:
            # If another writer has changed the table meanwhile, the next round tries again.
            with contextlib.suppress(CommitFailedError):
                self._table.optimize.compact()

    def close(self) -> None:
        """Do nothing: no resource is held."""

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """
        Raises:
            OtherRun: a commit was refused.
            LandingRefused, StoreUnavailable: a request to S3 has failed, see `s3_error`.
        """
        try:
            yield
        except CommitFailedError as error:
            raise OtherRun(f"another run has added to {self._url} meanwhile: {error}") from error
        except OSError as error:
            if self._current is None or isinstance(error, ClientError):
                raise
            from drumlin.spark.landing.targets.s3_lake.session import s3_error

            raise s3_error(self._url, error) from None

    def _append(self, table: DeltaTable, batch: Batch, told: CommitProperties) -> Added:
        write = partial(write_files, partial(_folder, table.table_uri, self._options), self._period)
        written = batch.map(write, WRITTEN).collect()
        batch.confirm()
        return _commit(table, "append", written, self._period, told)

    def _replace(
        self, table: DeltaTable, batch: Batch, position: Position, told: CommitProperties
    ) -> Added:
        """Replace all rows with those of a log that was read from its start."""
        tasks = 1 + sum(position.offsets.values()) // _OFFSETS_IN_TASK
        changes = batch.map(partial(packed, partial(crc_bucket, tasks)), PACKED)
        write = partial(_write_bucket, table.table_uri, self._options, batch.rows.schema)

        def written(changes: pa.Table) -> pa.Table:  # Spark inspects the number of arguments
            return write(changes)

        grouped = changes.repartition(tasks, "bucket").groupBy("bucket")
        found = grouped.applyInArrow(written, WRITTEN).collect()
        batch.confirm()
        return _commit(table, "overwrite", found, None, told)

    def _merge(self, table: DeltaTable, batch: Batch, told: CommitProperties) -> Added:
        found = batch.map(partial(packed, None), PACKED).collect()
        rows = unpacked([each.rows for each in found], batch.rows.schema)
        schema = _arrow(table)
        batch.confirm()
        before, rows = table.version(), aligned(rows, schema)
        done = (
            table.merge(
                rows,
                predicate="old.key = new.key",
                source_alias="new",
                target_alias="old",
                commit_properties=told,
            )
            .when_matched_update_all(_IS_LATER)
            .when_not_matched_insert_all()
            .execute()
        )
        if table.version() == before:  # no row has changed, so merge did not commit
            _commit(table, "append", [], None, told)
        changed = done["num_target_rows_inserted"] + done["num_target_rows_updated"]
        return Added(changed, rows.nbytes)

    def _opened(self, position: Position, rows: Rows) -> DeltaTable:
        """The table, with columns for these rows; created if it does not exist.

        Raises:
            OtherRun: the table did not exist, and another run has created and filled it.
            LandingRefused: a column of the table has another type.
        """
        columns = PERIOD_COLUMNS[self._period]
        wanted = pa.schema([*(each.with_nullable(True) for each in rows.schema), *columns])
        if self._table is None:
            told = {"topic": position.topic, "topic_id": position.topic_id, "mode": self._mode}
            described, names = json.dumps(told), [each.name for each in columns]
            DeltaTable.create(
                self._url,
                wanted,
                mode="ignore",
                description=described,
                partition_by=names or None,
                storage_options=self._options,
            )
            if self.position(position.offsets) != Position(position.topic, position.topic_id, {}):
                raise OtherRun(f"another run has made {self._url} meanwhile")
            assert self._table is not None
        self._add_columns(self._table, wanted, rows)
        return self._table

    def _add_columns(self, table: DeltaTable, wanted: pa.Schema, rows: Rows) -> None:
        """Add the columns that are missing; existing rows have null in them.

        Raises:
            LandingRefused: a column of the table has another type.
        """
        fields = {each.name: each for each in Schema.from_arrow(wanted).fields}
        there = {each.name: each.type for each in table.schema().fields}
        kinds = {name: each.type for name, each in fields.items()}
        if missing := missing_columns(there, kinds, rows, self._url):
            table.alter.add_columns([fields[name] for name in missing])

    def _described(self, table: DeltaTable) -> tuple[str, str]:
        """Name and id of the topic that is landed in this table.

        Raises:
            LandingRefused: the table was not created by a landing, is in the other mode, or is
                partitioned by another period.
        """
        try:
            found = json.loads(table.metadata().description or "{}")
            topic, topic_id = str(found["topic"]), str(found["topic_id"])
        except (ValueError, KeyError, TypeError):
            raise LandingRefused(f"{self._url} is a table that no topic was landed in") from None
        if (mode := found.get("mode", "upsert")) != self._mode:
            raise LandingRefused(
                f"{self._url} was begun in mode {mode!r}, and cannot go on in {self._mode!r}"
            )
        held = tuple(table.metadata().partition_columns)
        if held not in _PERIODS:
            raise LandingRefused(
                f"{self._url} is partitioned in another way than a landing does it"
            )
        self._period = agreed_period(self._period, _PERIODS[held], self._url)
        return topic, topic_id


def _write_bucket(
    url: str, options: dict[str, str] | None, schema: pa.Schema, changes: pa.Table
) -> pa.Table:
    """Write a file with the latest row of each key of a bucket; returns its row of `WRITTEN`."""
    rows = unpacked(changes["rows"].to_pylist(), schema).sort_by("key")
    return write_file(_folder(url, options), rows)


def _arrow(table: DeltaTable) -> pa.Schema:
    return pa.schema(table.schema().to_arrow())


def _commit(
    table: DeltaTable,
    mode: str,
    written: Iterable[Row],
    period: Period | None,
    told: CommitProperties,
) -> Added:
    written = list(written)
    now_ms = time.time_ns() // 1_000_000
    files: list[AddAction | RemoveAction] = [
        AddAction(
            path=each.path,
            size=each.size,
            partition_values=period_values(each.period, period),
            modification_time=now_ms,
            data_change=True,
            stats=json.dumps({"numRecords": each.records}),
        )
        for each in written
    ]
    table.create_write_transaction(
        files, mode, table.schema(), table.metadata().partition_columns, commit_properties=told
    )
    return Added(sum(each.records for each in written), sum(each.size for each in written))


def _folder(url: str, options: dict[str, str] | None) -> ArrowFolder:
    """The table's folder; paths are relative to it."""
    return ArrowFolder(fs.PyFileSystem(DeltaStorageHandler(url, options)), "")


def _application(topic: str, what: int | str) -> str:
    return f"drumlin/{topic}/{what}"
