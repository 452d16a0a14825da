"""The state of a topic: the last record of every key, read from the log partition by partition.

If a partition's state exceeds the memory limit, the partition is read in several passes: each keeps
the keys of one part of the hash space, and yields them before the next begins. Only leaders are
read; before and after, they are asked whether their log still has the state (`state_claims.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from drumlin.client.read import reader
from drumlin.client.read.range_stream import OffsetRange
from drumlin.client.state.exact_reading import ExactReader
from drumlin.peer.options import Isolation
from drumlin.records.columns.columns import RECORD_SCHEMA_WITH_HEADERS
from drumlin.records.latest.state_passes import passes, pieces

#: The columns of a snapshot; `headers` only on request.
COLUMNS: Final = ("key", "value", "headers", "partition", "offset", "timestamp")


def schema_of(columns: Sequence[str] | None, *, headers: bool) -> pa.Schema:
    """The schema of these columns; by default of all, with or without headers.

    Raises:
        ValueError: a column does not exist.
    """
    if columns is None:
        columns = [name for name in COLUMNS if headers or name != "headers"]
    unknown = sorted(set(columns) - set(COLUMNS))
    if unknown:
        raise ValueError(f"no such columns: {unknown}; there are {list(COLUMNS)}")
    return pa.schema([RECORD_SCHEMA_WITH_HEADERS.field(each) for each in columns])


class SnapshotOptions(NamedTuple):
    """The options of reading states."""

    schema: pa.Schema
    isolation: Isolation
    #: The memory limit of one partition's state; None: no limit.
    memory_bytes: int | None


class StateReader:
    """Reads the state of partitions."""

    def __init__(
        self,
        exact_reader: ExactReader,
        options: SnapshotOptions,
        on_read: Callable[[], object] | None = None,
    ) -> None:
        """`on_read`: called after each batch of records; an exception from it ends the reading."""
        self._reader = exact_reader
        self._on_read = on_read
        self._options = options
        self._schema = options.schema

    def read(self, wanted: OffsetRange) -> Iterator[pa.RecordBatch]:
        """The last row of every key, tombstones applied, in columns of the schema.

        In offset order, if the state does not exceed the memory limit.

        Raises:
            StateNotExact: before the rows that may be wrong.
        """
        for latest in passes(lambda: self._records(wanted), self._options.memory_bytes):
            self._reader.confirm(wanted)
            for batch in latest.rows():
                yield self._shown(batch, wanted.partition)
            del latest  # the next pass needs the memory

    def replay(self, wanted: OffsetRange, memory_bytes: int) -> Iterator[pa.RecordBatch]:
        """Rows, including tombstones, in a single pass; each replaces earlier rows of its key.

        Raises:
            StateNotExact: after the last row, as any may be wrong.
        """
        for latest in pieces(self._records(wanted), memory_bytes):
            for batch in latest.rows(with_tombstones=True):
                yield self._shown(batch, wanted.partition)
        self._reader.confirm(wanted)

    def _records(self, wanted: OffsetRange) -> Iterator[pa.RecordBatch]:
        """The records of a range, with columns to return and those that find the last record."""
        names = {*self._schema.names, "key", "value", "offset"} - {"partition"}
        options = reader.ReadOptions(columns=sorted(names), isolation=self._options.isolation)
        batches = self._reader.read(wanted, options)
        for batch in batches:
            if self._on_read is not None:
                self._on_read()
            if "value" not in self._schema.names:
                # The value is only needed to recognise tombstones.
                batch = batch.append_column("has_value", pc.is_valid(batch.column("value")))
                batch = batch.drop_columns(["value"])
            yield batch

    def _shown(self, rows: pa.RecordBatch, partition: int) -> pa.RecordBatch:
        if "partition" in self._schema.names:
            numbers = pa.repeat(pa.scalar(partition, pa.int32()), rows.num_rows)
            rows = rows.append_column("partition", numbers)
        arrays = [rows.column(name) for name in self._schema.names]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)
