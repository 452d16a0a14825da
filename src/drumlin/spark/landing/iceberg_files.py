"""Writes the data files of an Iceberg table, in Spark's tasks: no data passes through the driver.

A failed task attempt leaves orphan files, which no snapshot refers to.
"""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Self

import mmh3
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import (
    ArrowScan,
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
    schema_to_pyarrow,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask, Table
from pyiceberg.table.locations import load_location_provider
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.typedef import Record

from drumlin.spark.landing.latest import last_of_partitions, latest
from drumlin.spark.landing.record_files import COLUMNS, write_files

#: The columns that an upsert reads from a topic, and the schema of the records that tasks shuffle.
READ: Final = "partition,offset,timestamp,key,value"
CHANGED: Final = "bucket int, partition int, offset long, timestamp long, key binary, value binary"
#: The result rows of tasks that append: pyiceberg's `DataFile`, pickled.
WRITTEN: Final = "file binary"
#: The result rows of tasks that rewrite: a bucket and its new file, null if the bucket is empty.
REWRITTEN: Final = "bucket int, file binary"
_REWRITTEN: Final = pa.schema([("bucket", pa.int32()), ("file", pa.binary())])
#: The size of the records that a task buffers before it reduces them to the last ones and passes
#: these on.
_REDUCED_BYTES: Final = 64 << 20
#: The size of a row group: readers skip row groups by their minimum and maximum key.
_ROWS_IN_GROUP: Final = 100_000


class Writing(NamedTuple):
    """The parts of a table that a task needs."""

    io: FileIO
    metadata: TableMetadata

    @classmethod
    def of(cls, table: Table) -> Self:
        """The parts of this table, without its history, which may be long."""
        history: dict[str, Any] = {"snapshots": [], "snapshot_log": [], "metadata_log": []}
        now = {**history, "refs": {}, "current_snapshot_id": None}
        return cls(table.io, table.metadata.model_copy(update=now))

    def create(self, name: str) -> tuple[str, Any]:
        """Create a data file of the table; returns its path, and an output stream."""
        metadata = self.metadata
        places = load_location_provider(metadata.location, metadata.properties)
        path = places.new_data_location(name)
        return path, self.io.new_output(path).create()

    def columns(self, names: str) -> Schema:
        """The table's schema, reduced to these columns."""
        return self.metadata.schema().select(*names.split(","))


def append_files(writing: Writing, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Write a task's records, to one file for each partition."""
    columns = writing.columns(COLUMNS)
    schema = schema_to_pyarrow(columns)
    rows = (batch.select(schema.names).cast(schema) for batch in batches)
    for found in write_files(lambda: writing, rows):
        files = [described(writing, path, columns) for path in found["path"].to_pylist()]
        yield pa.table({"file": [pickle.dumps(each) for each in files]})


def bucketed(buckets: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The last record of each key, with its bucket; several if a key's records are far apart."""
    kept: list[pa.RecordBatch] = []
    for batch in batches:
        kept.append(batch.filter(pc.is_valid(batch["key"])))
        if sum(each.nbytes for each in kept) > _REDUCED_BYTES:
            yield _bucketed(buckets, pa.Table.from_batches(kept))
            kept.clear()
    if kept:
        yield _bucketed(buckets, pa.Table.from_batches(kept))


def _bucketed(buckets: int, records: pa.Table) -> pa.Table:
    last = last_of_partitions(records)
    # The hash of Iceberg's bucket transform.
    found = [(mmh3.hash(key) & 0x7FFFFFFF) % buckets for key in last["key"].to_pylist()]
    # As a number, so that the session's time zone makes no difference.
    time_us = last["timestamp"].cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    last = last.set_column(last.schema.get_field_index("timestamp"), "timestamp", time_us)
    return last.add_column(0, "bucket", pa.array(found, pa.int32()))


def rewrite_bucket(
    writing: Writing, held: Mapping[int, Sequence[FileScanTask]], changes: pa.Table
) -> pa.Table:
    """Rewrite the file of a bucket, if these records change any of its rows."""
    bucket = changes["bucket"][0].as_py()
    columns = writing.columns(READ)
    schema = schema_to_pyarrow(columns)
    nullable = pa.schema([each.with_nullable(True) for each in schema])  # tombstones have no value
    before = _read(writing, columns, held.get(bucket, ())).select(schema.names).cast(nullable)
    rows, is_changed = merged(before, _as_rows(changes, nullable))
    if not is_changed:
        return _REWRITTEN.empty_table()
    if len(rows) == 0:
        return pa.table([[bucket], [None]], _REWRITTEN)
    path, stream = writing.create(f"{uuid.uuid4()}.parquet")
    with stream, pq.ParquetWriter(stream, schema, compression="zstd") as writer:
        writer.write_table(rows.cast(schema), row_group_size=_ROWS_IN_GROUP)
    file = described(writing, path, columns, bucket)
    return pa.table([[bucket], [pickle.dumps(file)]], _REWRITTEN)


def merged(before: pa.Table, changes: pa.Table) -> tuple[pa.Table, bool]:
    """The rows of a bucket with these records applied, sorted by key; and whether any changed."""
    is_new = pa.array([False] * len(before) + [True] * len(changes))
    both = pa.concat_tables([before, changes]).append_column("is_new", is_new)
    found = latest(last_of_partitions(both))
    found = found.filter(pc.is_valid(found["value"])).sort_by("key")
    is_changed = len(found) != len(before) or bool(pc.any(found["is_new"]).as_py())
    return found.drop_columns("is_new"), is_changed


def described(writing: Writing, path: str, columns: Schema, *partition: int) -> DataFile:
    """The entry for a written file, with the column statistics of its footer."""
    metadata, source = writing.metadata, writing.io.new_input(path)
    with source.open() as stream:
        found = pq.read_metadata(stream)
    statistics = data_file_statistics_from_parquet_metadata(
        found,
        compute_statistics_plan(columns, metadata.properties),
        parquet_path_to_id_mapping(columns),
    )
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Record(*partition),
        file_size_in_bytes=len(source),
        sort_order_id=None,
        spec_id=metadata.default_spec_id,
        equality_ids=None,
        key_metadata=None,
        **statistics.to_serialized_dict(),
    )


def _read(writing: Writing, columns: Schema, files: Sequence[FileScanTask]) -> pa.Table:
    """The rows of these files, without rows that other writers have deleted."""
    return ArrowScan(writing.metadata, writing.io, columns, AlwaysTrue()).to_table(files)


def _as_rows(changes: pa.Table, schema: pa.Schema) -> pa.Table:
    """The records, with the table's columns and types."""
    time = changes["timestamp"].cast(pa.timestamp("us", "UTC"))
    changes = changes.set_column(changes.schema.get_field_index("timestamp"), "timestamp", time)
    return changes.select(schema.names).cast(schema)
