"""Changes of values: each entry of a key compared with the one before it. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from drumlin.spark.reading.columns import arrow_schema
from drumlin.spark.state.entries import is_since

#: The columns that entries need.
ENTRY_COLUMNS: Final = ("key", "value", "partition", "offset", "timestamp")
OPERATIONS: Final = ("insert", "update", "delete")

CHANGES: Final = pa.schema(
    [
        ("operation", pa.string()),
        ("key", pa.binary()),
        ("before", pa.binary()),
        ("after", pa.binary()),
        *arrow_schema(("partition", "offset", "timestamp")),
    ]
)
_INSERT, _UPDATE, _DELETE, _NOTHING = range(4)


def changes(
    entries: pa.RecordBatch, since: np.ndarray, batch_bytes: int
) -> Iterator[pa.RecordBatch]:
    """The changes made by the entries from `since` on; earlier entries hold the former values.

    Each key has at most one earlier entry, and all keys are bytes. Changes come key by key, in
    offset order, in batches of about `batch_bytes`. A tombstone of an absent key is no change.
    """
    rows_together = max(1, entries.num_rows * batch_bytes // max(1, 2 * entries.nbytes))
    order, has_former = _in_order(entries)
    operations = _operations(pc.is_valid(entries.column("value")), order, has_former)
    operations[~is_since(entries, since)[order]] = _NOTHING
    places = np.flatnonzero(operations != _NOTHING)
    for start in range(0, len(places), rows_together):
        piece = places[start : start + rows_together]
        # The row before a key's first one belongs to another key: it is ignored.
        former = pa.array(order[piece - 1], mask=~has_former[piece])
        yield _rows(entries, pa.array(order[piece]), former, operations[piece])


def _in_order(entries: pa.RecordBatch) -> tuple[np.ndarray, np.ndarray]:
    """The order by partition, key and offset; and which entries follow another of their key."""
    keys = pc.dictionary_encode(entries.column("key")).indices.to_numpy()
    partitions = entries.column("partition").to_numpy()
    order = np.lexsort((entries.column("offset").to_numpy(), keys, partitions))
    keys, partitions = keys[order], partitions[order]
    has_former = np.zeros(len(order), np.bool_)
    has_former[1:] = (keys[1:] == keys[:-1]) & (partitions[1:] == partitions[:-1])
    return order, has_former


def _operations(has_value: pa.Array, order: np.ndarray, has_former: np.ndarray) -> np.ndarray:
    """The operation of each entry: insert, update or delete."""
    is_there = has_value.to_numpy(zero_copy_only=False)[order]
    was_there = has_former.copy()
    was_there[1:] &= is_there[:-1]
    return np.select(
        [is_there & ~was_there, is_there & was_there, ~is_there & was_there],
        [_INSERT, _UPDATE, _DELETE],
        _NOTHING,
    )


def _rows(
    entries: pa.RecordBatch, rows: pa.Array, former: pa.Array, operations: np.ndarray
) -> pa.RecordBatch:
    value = entries.column("value")
    arrays = [
        pa.array(OPERATIONS).take(pa.array(operations)),
        entries.column("key").take(rows),
        value.take(former),
        value.take(rows),
        *(entries.column(name).take(rows) for name in ("partition", "offset", "timestamp")),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=CHANGES)
