"""Which row of a table goes to which partition.

As Kafka's producers do by default: by the hash of the key; rows without one go to one
partition after another, a batch full of them each.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from drumlin.records.columns import partition_for_keys

Rows = NDArray[np.int64]
#: Given the data and the number of partitions, a partition for each row.
TablePartitioner = Callable[[pa.Table, int], Any]


def rows_by_partition(assigned: NDArray[np.integer[Any]]) -> dict[int, Rows]:
    """The rows of each partition, in their old order."""
    order = np.argsort(assigned, kind="stable")
    partitions, starts = np.unique(assigned[order], return_index=True)
    pieces = np.split(order.astype(np.int64), starts[1:])
    return dict(zip(partitions.tolist(), pieces, strict=True))


def by_key(
    keys: pa.Array | None, partitions: Sequence[int], rows: int, rows_per_batch: int
) -> NDArray[np.int32]:
    """Kafka's choice: the key's hash, or without a key whole batches in turn."""
    in_turn = (random.randrange(len(partitions)) + np.arange(rows) // rows_per_batch) % len(
        partitions
    )
    if keys is None:
        return in_turn.astype(np.int32)
    hashed = partition_for_keys(keys, len(partitions))
    return np.where(hashed < 0, in_turn, hashed).astype(np.int32)


def as_given(chosen: Any, partitions: Sequence[int], rows: int) -> NDArray[np.int32]:
    """A column of partition numbers that somebody else has chosen.

    Raises:
        ValueError: not one for each row, a null, or a partition that does not exist.
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
