"""A Delta table: every record of a topic, or the last value of each key.

Each commit also stores the offsets that the table has reached, in Delta's own way: as the version
of an application transaction (`txn`), one for each partition. Delta refuses a commit if another
commit has changed these versions meanwhile, so of two concurrent runs one fails. The table's
description names the topic.

In upsert mode a deleted key keeps its row, with a null value. Within a partition, offsets order the
records of a key. But if partitions were added to the topic, an older record of the key may still
arrive from another partition. Then the latest timestamp wins, as there is no better order.

The package `deltalake` writes the table, so neither a jar nor a Spark session with Delta is needed.
In append mode the tasks that read the records write them, and the driver commits. In upsert mode
Spark reduces the records to the last one of each key; the merge runs in the driver, on all of its
cores, with the batch in its memory.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection
from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError, TableNotFoundError
from deltalake.fs import DeltaStorageHandler
from deltalake.transaction import AddAction
from pyarrow import fs

from drumlin.spark.landing.latest import latest
from drumlin.spark.landing.record_files import COLUMNS, WRITTEN, ArrowFolder, write_files
from drumlin.spark.landing.target import Batch, LandingRefused, Mode, OtherRun, Position

if TYPE_CHECKING:
    from deltalake.transaction import RemoveAction

_MERGED: Final = "partition,offset,timestamp,key,value"
_AT_END: Final = "at-end-ms"
_TIME: Final = pa.timestamp("us", "UTC")
_HEADER: Final = pa.struct({"key": pa.string(), "value": pa.binary()})
_SCHEMAS: Final = {
    "upsert": pa.schema(
        {
            "key": pa.binary(),
            "value": pa.binary(),
            "partition": pa.int32(),
            "offset": pa.int64(),
            "timestamp": _TIME,
        }
    ),
    "append": pa.schema(
        {
            "partition": pa.int32(),
            "offset": pa.int64(),
            "timestamp": _TIME,
            "key": pa.binary(),
            "value": pa.binary(),
            "headers": pa.list_(_HEADER),
        }
    ),
}
#: Records of the same partition arrive in order. Between partitions, the later timestamp wins.
_IS_LATER: Final = """
new.partition = old.partition OR new.timestamp > old.timestamp
OR (new.timestamp = old.timestamp AND new.partition > old.partition)
"""


class Table:
    """A Delta table, used by one run."""

    def __init__(self, url: str, mode: Mode) -> None:
        self._url, self._mode = url, mode
        self._table: DeltaTable | None = None

    def position(self, partitions: Collection[int]) -> Position | None:
        try:
            self._table = DeltaTable(self._url)
        except TableNotFoundError:
            return None
        topic, topic_id = self._described(self._table)
        reached = {
            each: self._table.transaction_version(_application(topic, each)) for each in partitions
        }
        offsets = {each: offset for each, offset in reached.items() if offset is not None}
        at_end_ms = self._table.transaction_version(_application(topic, _AT_END))
        return Position(topic, topic_id, offsets, at_end_ms)

    def add(self, batch: Batch, position: Position) -> None:
        versions: dict[int | str, int] = dict(position.offsets.items())
        if position.at_end_ms is not None:
            versions[_AT_END] = position.at_end_ms
        told = CommitProperties(
            app_transactions=[
                Transaction(_application(position.topic, each), version)
                for each, version in versions.items()
            ]
        )
        try:
            table = self._opened(position)
            if self._mode == "append":
                self._append(table, batch, told)
            else:
                self._merge(table, batch, told)
        except CommitFailedError as error:
            raise OtherRun(f"another run has added to {self._url} meanwhile: {error}") from error

    def close(self) -> None:
        """Do nothing: no resource is held."""

    def _append(self, table: DeltaTable, batch: Batch, told: CommitProperties) -> None:
        write = partial(write_files, partial(_folder, table.table_uri))
        written = batch.map(COLUMNS, write, WRITTEN).collect()
        now_ms = time.time_ns() // 1_000_000
        files: list[AddAction | RemoveAction] = [
            AddAction(
                path=each.path,
                size=each.size,
                partition_values={},
                modification_time=now_ms,
                data_change=True,
                stats=json.dumps({"numRecords": each.records}),
            )
            for each in written
        ]
        batch.confirm()
        table.create_write_transaction(files, "append", _SCHEMAS["append"], commit_properties=told)

    def _merge(self, table: DeltaTable, batch: Batch, told: CommitProperties) -> None:
        from pyspark.sql import functions as f

        last = f.max_by(f.struct("value", "offset", "timestamp"), "offset").alias("last")
        records = batch.frame(_MERGED).where("key IS NOT NULL")
        found = records.groupBy("key", "partition").agg(last)
        columns = ("key", "last.value", "partition", "last.offset", "last.timestamp")
        rows = found.select(*columns).toArrow().cast(_SCHEMAS["upsert"])
        batch.confirm()
        before = table.version()
        (
            table.merge(
                latest(rows),
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
            table.create_write_transaction([], "append", _SCHEMAS["upsert"], commit_properties=told)

    def _opened(self, position: Position) -> DeltaTable:
        """The table, created if it does not exist.

        Raises:
            OtherRun: the table did not exist, and another run has created and filled it.
        """
        if self._table is None:
            told = {"topic": position.topic, "topic_id": position.topic_id, "mode": self._mode}
            schema, described = _SCHEMAS[self._mode], json.dumps(told)
            DeltaTable.create(self._url, schema, mode="ignore", description=described)
            if self.position(position.offsets) != Position(position.topic, position.topic_id, {}):
                raise OtherRun(f"another run has made {self._url} meanwhile")
            assert self._table is not None
        return self._table

    def _described(self, table: DeltaTable) -> tuple[str, str]:
        """Name and id of the topic that is landed in this table.

        Raises:
            LandingRefused: the table was not created by a landing, or is in the other mode.
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
        return topic, topic_id


def _folder(url: str) -> ArrowFolder:
    """The table's folder; paths are relative to it."""
    return ArrowFolder(fs.PyFileSystem(DeltaStorageHandler(url)), "")


def _application(topic: str, what: int | str) -> str:
    return f"drumlin/{topic}/{what}"
