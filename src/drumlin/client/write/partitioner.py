"""The partition of each row of a table.

Partitions are chosen as in Kafka's producers: by the hash of the key; rows without a key fill a
batch for one partition, then for another.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from drumlin.records.columns.columns import partition_for_keys

_UINT16_COUNT: Final = 1 << 16

Rows = NDArray[np.int64]
#: A function from the data and the number of partitions to a partition for each row.
TablePartitioner = Callable[[pa.Table, int], Any]


def rows_by_partition(assigned: NDArray[np.integer[Any]]) -> dict[int, Rows]:
    """The rows of each partition, in their original order. Partitions are numbers from 0."""
    counts = np.bincount(assigned)
    # numpy sorts 16-bit numbers without comparisons, ten times as fast.
    narrow = assigned.astype(np.uint16) if len(counts) <= _UINT16_COUNT else assigned
    order = np.argsort(narrow, kind="stable").astype(np.int64, copy=False)
    ends = np.cumsum(counts)
    return {
        partition: order[ends[partition] - counts[partition] : ends[partition]]
        for partition in np.flatnonzero(counts).tolist()
    }


def by_key(
    keys: pa.Array | None, partitions: Sequence[int], rows: int, rows_per_batch: int
) -> NDArray[np.int32]:
    """Kafka's choice: by the key's hash, or without a key, batch by batch in turn."""
    in_turn = (random.randrange(len(partitions)) + np.arange(rows) // rows_per_batch) % len(
        partitions
    )
    if keys is None:
        return in_turn.astype(np.int32)
    hashed = partition_for_keys(keys, len(partitions))
    return np.where(hashed < 0, in_turn, hashed).astype(np.int32)


class StickyTurns:
    """`by_key` for rows in pieces: rows without a key continue in the last such row's partition."""

    def __init__(self, partition_count: int) -> None:
        self._partition_count = partition_count
        self._batches = float(random.randrange(partition_count))  # filled so far

    def assign(self, keys: pa.Array | None, rows: int, rows_per_batch: int) -> NDArray[np.int64]:
        """A partition for each row."""
        if keys is None:
            return self._next(rows, rows_per_batch)
        assigned = partition_for_keys(keys, self._partition_count).astype(np.int64)
        if not keys.null_count:
            return assigned
        without = assigned < 0
        assigned[without] = self._next(int(without.sum()), rows_per_batch)
        return assigned

    def _next(self, rows: int, rows_per_batch: int) -> NDArray[np.int64]:
        places = self._batches + np.arange(rows + 1) / rows_per_batch
        self._batches = float(places[-1])
        return places[:-1].astype(np.int64) % self._partition_count


def partitions_needed(chosen: pa.Array | pa.ChunkedArray) -> int:
    """The number of partitions that the largest partition number in a column needs."""
    return 1 + (pc.max(chosen.cast(pa.int64())).as_py() or 0)


def as_chosen(chosen: pa.Array, otherwise: NDArray[np.int64]) -> NDArray[np.int64]:
    """The partitions in a column, with `otherwise` for nulls. They need not exist."""
    numbers = chosen.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    if not chosen.null_count:
        return np.asarray(numbers)
    return np.where(chosen.is_null().to_numpy(zero_copy_only=False), otherwise, numbers)


def as_given(chosen: Any, partitions: Sequence[int], rows: int) -> NDArray[np.int32]:
    """A column of partition numbers that the caller has chosen.

    Raises:
        ValueError: the column has another length, a null, or a partition that does not exist.
    """
    if isinstance(chosen, pa.ChunkedArray):
        chosen = chosen.combine_chunks()
    if isinstance(chosen, pa.Array):
        if chosen.null_count:
            raise ValueError("a partition is null: choose one for each row")
        chosen = chosen.to_numpy(zero_copy_only=False)
    assigned = np.asarray(chosen)
    if assigned.shape != (rows,) or assigned.dtype.kind not in "iu":
        raise ValueError(f"partitions must be {rows} whole numbers, one for each row")
    unknown = np.setdiff1d(assigned, np.asarray(partitions))
    if unknown.size:
        raise ValueError(f"there is no partition {unknown[0]}: there are {len(partitions)}")
    return assigned.astype(np.int32)
