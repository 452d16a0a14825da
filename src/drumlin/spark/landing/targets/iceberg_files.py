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
from pyiceberg.table import FileScanTask, Table
from pyiceberg.table.locations import load_location_provider
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.typedef import Record

from drumlin.spark.landing.rows.latest import last_of_partitions, latest
from drumlin.spark.landing.rows.mode import Period
from drumlin.spark.landing.rows.record_files import write_files
from drumlin.spark.landing.rows.reduced import unpacked
from drumlin.spark.landing.rows.rows import Rows, aligned

#: The result rows of tasks that append: pyiceberg's `DataFile`, pickled.
WRITTEN: Final = "file binary"
#: The result rows of tasks that rewrite: a bucket and its new file, null if the bucket is empty.
REWRITTEN: Final = "bucket int, file binary"
_REWRITTEN: Final = pa.schema([("bucket", pa.int32()), ("file", pa.binary())])
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

    def schema(self) -> pa.Schema:
        """The columns of the table."""
        return schema_to_pyarrow(self.metadata.schema())


def append_files(
    writing: Writing, period: Period | None, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.Table]:
    """Write a task's rows, to one file for each partition, and for each period of it."""
    schema = writing.schema()
    rows = (each for batch in batches for each in _with_columns(batch, schema).to_batches())
    for found in write_files(lambda: writing, period, rows):
        periods = [[] if each is None else [each] for each in found["period"].to_pylist()]
        paths = zip(found["path"].to_pylist(), periods, strict=True)
        files = [described(writing, path, *of_period) for path, of_period in paths]
        yield pa.table({"file": [pickle.dumps(each) for each in files]})


def iceberg_bucket(buckets: int, key: bytes) -> int:
    """The bucket of a key, by the hash of Iceberg's bucket transform."""
    return int(mmh3.hash(key) & 0x7FFFFFFF) % buckets


def rewrite_bucket(
    writing: Writing, rows: Rows, held: Mapping[int, Sequence[FileScanTask]], changes: pa.Table
) -> pa.Table:
    """Rewrite the file of a bucket, if these records change any of its rows.

    Args:
        changes: results of `packed`, all of this bucket.
    """
    bucket = changes["bucket"][0].as_py()
    schema = writing.schema()
    nullable = pa.schema([each.with_nullable(True) for each in schema])  # tombstones have no value
    before = read_files(writing, held.get(bucket, ())).select(schema.names).cast(nullable)
    found = unpacked(changes["rows"].to_pylist(), rows.schema)
    is_live = rows.live(found).combine_chunks()
    after, is_changed = merged(before, aligned(found, nullable), is_live)
    if not is_changed:
        return _REWRITTEN.empty_table()
    if len(after) == 0:
        return pa.table([[bucket], [None]], _REWRITTEN)
    file = write_rows(writing, after, bucket)
    return pa.table([[bucket], [pickle.dumps(file)]], _REWRITTEN)


def merged(before: pa.Table, changes: pa.Table, is_live: pa.Array) -> tuple[pa.Table, bool]:
    """The rows of a bucket with these records applied, sorted by key; and whether any changed.

    Args:
        is_live: a mask of the changes that are not tombstones.
    """
    old, new = len(before), len(changes)
    both = pa.concat_tables([before, changes])
    both = both.append_column("is_new", pa.array([False] * old + [True] * new))
    live = pa.concat_arrays([pa.array([True] * old, pa.bool_()), is_live])
    both = both.append_column("is_live", live)
    found = latest(last_of_partitions(both))
    found = found.filter(found["is_live"]).sort_by("key")
    is_changed = len(found) != old or bool(pc.any(found["is_new"]).as_py())
    return found.drop_columns(["is_new", "is_live"]), is_changed


def write_rows(writing: Writing, rows: pa.Table, *partition: int) -> DataFile:
    """Write a data file with these rows."""
    schema = writing.schema()
    path, stream = writing.create(f"{uuid.uuid4()}.parquet")
    with stream, pq.ParquetWriter(stream, schema, compression="zstd") as writer:
        writer.write_table(rows.cast(schema), row_group_size=_ROWS_IN_GROUP)
    return described(writing, path, *partition)


def described(writing: Writing, path: str, *partition: object) -> DataFile:
    """The entry for a written file, with the column statistics of its footer."""
    metadata, source = writing.metadata, writing.io.new_input(path)
    columns = metadata.schema()
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


def read_files(writing: Writing, files: Sequence[FileScanTask]) -> pa.Table:
    """The rows of these files, without rows that other writers have deleted."""
    columns = writing.metadata.schema()
    return ArrowScan(writing.metadata, writing.io, columns, AlwaysTrue()).to_table(files)


def _with_columns(batch: pa.RecordBatch, schema: pa.Schema) -> pa.Table:
    return aligned(pa.Table.from_batches([batch]), schema)
