"""Resizes Arrow batches to the size that Spark handles best, whatever the fetch size.

Every batch costs Spark's JVM some work, and a large one does not fit its caches. The size of a
fetch is chosen separately: it depends on the network to the brokers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa


def of_good_size(batches: Iterable[pa.RecordBatch], target_bytes: int) -> Iterator[pa.RecordBatch]:
    """The same rows in the same order, in batches of about `target_bytes`.

    Small batches are concatenated, which copies them. Large ones are sliced, which does not.
    """
    waiting: list[pa.RecordBatch] = []
    waiting_bytes = 0
    for batch in batches:
        size_bytes = batch.nbytes
        is_small = size_bytes < target_bytes // 2
        if waiting and (not is_small or waiting_bytes + size_bytes > target_bytes):
            yield pa.concat_batches(waiting)
            waiting, waiting_bytes = [], 0
        if is_small:
            waiting.append(batch)
            waiting_bytes += size_bytes
        else:
            yield from _pieces(batch, target_bytes)
    if waiting:
        yield pa.concat_batches(waiting)


def _pieces(batch: pa.RecordBatch, target_bytes: int) -> Iterator[pa.RecordBatch]:
    """Slices with the same number of rows; only one if the batch is not much too large."""
    count = min(max(1, round(batch.nbytes / target_bytes)), batch.num_rows)
    rows = -(-batch.num_rows // count)
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)
