"""Appends many records at once: encodes columns as record batches, and delivers them.

The caller's thread chooses partitions and encodes, window by window; the loop delivers. The bytes
that are encoded but not acknowledged are bounded, so a table of any size can be appended.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from drumlin.client import tables
from drumlin.client.errors import DeliveryFailed
from drumlin.client.loops.core_loop import CoreLoop
from drumlin.client.tables import TableLike
from drumlin.client.write.deliveries import AppendedRange, Deliveries, DeliveryRules, Target
from drumlin.client.write.options import AppendOptions, IfThere
from drumlin.client.write.partitioner import as_given, by_key, partitions_needed, rows_by_partition
from drumlin.records.columns.columns import RecordColumns

_WINDOW_BYTES: Final = 16 << 20


@dataclass(frozen=True, slots=True)
class AppendReport:
    """The records that were written. Offsets are -1 if brokers do not return them (acks="none")."""

    topic: str
    record_count: int
    size_bytes: int
    partitions: dict[int, AppendedRange]


class _Columns(NamedTuple):
    """The columns of the records; None: there is no such column."""

    value: pa.ChunkedArray
    key: pa.ChunkedArray | None
    headers: pa.ChunkedArray | None
    timestamp: pa.ChunkedArray | None

    def window(self, start: int, length: int) -> RecordColumns:
        """A range of rows for the encoder. Records without a timestamp get the current time."""
        value, key, headers, timestamp = (
            None if each is None else each.slice(start, length) for each in self
        )
        return RecordColumns(
            value,
            keys=key,
            timestamps=timestamp,
            headers=headers,
            default_timestamp_ms=time.time_ns() // 1_000_000,
        )


def append(
    thread: CoreLoop,
    target: Target,
    data: TableLike,
    topic: str,
    options: AppendOptions,
) -> AppendReport:
    """See `Client.append`."""
    table, columns = thread.compute(lambda: _records_of(data, options), _size_of(data))
    partitions = thread.run(target.partitions(topic, _partitions_needed(table, options)))
    assigned = thread.compute(
        lambda: _assigned(table, columns, partitions, options), _size_of(table)
    )
    deliveries = Deliveries(thread, target, _rules(options))
    try:
        encoded = _encoded(table, columns, assigned, options)
        for partition, batch in thread.iterate(encoded, _size_of(table)):
            deliveries.send(topic, partition, batch)
        partitions_done = {partition: done for (_, partition), done in deliveries.finish().items()}
    except DeliveryFailed:
        raise
    except Exception as error:
        # Some batches may be in flight: no later append may overtake them.
        error.add_note(f"{deliveries.settle()} records of this append were written")
        raise
    return AppendReport(topic, deliveries.record_count, deliveries.size_bytes, partitions_done)


def _size_of(data: TableLike) -> int:
    """The bytes of data, as far as it knows them: otherwise they count as many."""
    size_bytes = getattr(data, "nbytes", None)
    return size_bytes if isinstance(size_bytes, int) else _WINDOW_BYTES


def _records_of(data: TableLike, options: AppendOptions) -> tuple[pa.Table, _Columns]:
    table = tables.as_table(data)
    return table, _columns_of(table, options)


def _encoded(
    table: pa.Table, columns: _Columns, assigned: NDArray[np.int32], options: AppendOptions
) -> Iterator[tuple[int, memoryview]]:
    """The batches of all rows, each with its partition."""
    for start, length in _windows(table):
        window = columns.window(start, length)
        for partition, rows in rows_by_partition(assigned[start : start + length]).items():
            batches = window.encode(
                rows,
                max_batch_bytes=options.batch_bytes,
                compression=options.compression,
            )
            for batch in batches:
                yield partition, batch


def _rules(options: AppendOptions) -> DeliveryRules:
    return DeliveryRules(
        options.acks, options.retries, options.delivery_timeout_ms, options.buffer_bytes
    )


def _columns_of(table: pa.Table, options: AppendOptions) -> _Columns:
    def column(role: str, name: str | None) -> pa.ChunkedArray | None:
        if name is None or (isinstance(name, IfThere) and name not in table.column_names):
            return None
        if name not in table.column_names:
            raise ValueError(f"no column {name!r} for {role}: there are {table.column_names}")
        return table.column(name)

    def named(role: str, name: str | None) -> pa.ChunkedArray | None:
        return None if isinstance(name, IfThere) else column(role, name)

    keys = column("key", options.key)
    if options.encode == "json":
        # The table may have any columns: only "key" is used without being named.
        texts = None if keys is None else tables.as_text(keys)
        return _Columns(
            tables.as_json(table, named("value", options.value)),
            texts,
            named("headers", options.headers),
            named("timestamp", options.timestamp),
        )
    values = column("value", options.value)
    if values is None:
        raise ValueError(
            f"no column 'value': name one of {table.column_names} with value=, "
            'or write whole rows with encode="json"'
        )
    tables.check_writable("value", str(options.value), values)
    if keys is not None:
        tables.check_writable("key", str(options.key), keys)
    return _Columns(
        values,
        keys,
        column("headers", options.headers),
        column("timestamp", options.timestamp),
    )


def _assigned(
    table: pa.Table, columns: _Columns, partitions: Sequence[int], options: AppendOptions
) -> NDArray[np.int32]:
    """The partition of each row."""
    chosen = options.partition
    if callable(chosen):
        return as_given(chosen(table, len(partitions)), partitions, table.num_rows)
    if chosen is not None:
        if chosen not in table.column_names:
            there_are = f"there are {table.column_names}"
            raise ValueError(f"no column {chosen!r} for partition: {there_are}")
        return as_given(table.column(chosen), partitions, table.num_rows)
    rows_per_batch = max(1, options.batch_bytes // _row_bytes(table))
    return by_key(columns.key, partitions, table.num_rows, rows_per_batch)


def _partitions_needed(table: pa.Table, options: AppendOptions) -> int:
    """The number of partitions that a column of partition numbers needs."""
    chosen = options.partition
    if not isinstance(chosen, str) or chosen not in table.column_names:
        return 0
    column = table.column(chosen)
    return partitions_needed(column) if pa.types.is_integer(column.type) else 0


def _windows(table: pa.Table) -> Iterator[tuple[int, int]]:
    """The windows of a table, which are encoded one at a time: (first row, row count)."""
    rows = max(1, _WINDOW_BYTES // _row_bytes(table))
    for start in range(0, table.num_rows, rows):
        yield start, min(rows, table.num_rows - start)


def _row_bytes(table: pa.Table) -> int:
    size_bytes: int = table.nbytes
    rows: int = table.num_rows
    return 1 + size_bytes // max(1, rows)
