"""Packs entries for the shuffle: thousands of rows in one value, as Arrow writes them.

Spark would convert every row into its own form and back, but it only moves the bytes of a cell.
Cells are bounded, as each is one value for Spark and for Arrow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from drumlin.records.latest.key_shares import key_shares
from drumlin.spark.state.entries import entry_schema

#: The schema of the shuffle's rows, for Spark and for Arrow.
CELLS_DDL: Final = "reducer int, packed binary"
_CELLS: Final = pa.schema([("reducer", pa.int32()), ("packed", pa.binary())])


def cells(
    batches: Iterable[pa.RecordBatch], reducers: int, seed: bytes, cell_bytes: int
) -> Iterator[pa.RecordBatch]:
    """The entries of all batches in cells for the reducers; batches have about `cell_bytes`."""
    together = list(batches)
    if not together:
        return
    entries = pa.concat_batches(together)
    del together
    shares = key_shares(
        entries.column("key"), entries.column("partition").to_numpy(), seed=seed, count=reducers
    )
    numbers: list[int] = []
    packed: list[pa.Buffer] = []
    waiting_bytes = 0
    for reducer, rows in _pieces(entries, shares, cell_bytes):
        cell = entries.take(pa.array(rows)).serialize()
        if numbers and waiting_bytes + cell.size > cell_bytes:
            yield _batch(numbers, packed)
            numbers, packed, waiting_bytes = [], [], 0
        numbers.append(reducer)
        packed.append(cell)
        waiting_bytes += cell.size
    yield _batch(numbers, packed)


def unpacked(batch: pa.RecordBatch, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The entries in a batch of cells."""
    schema = entry_schema(columns)
    for cell in batch.column("packed"):
        # A copy: Arrow needs aligned buffers, and a view would keep the batch in memory.
        yield pa.ipc.read_record_batch(pa.py_buffer(cell.as_py()), schema)


def _pieces(
    entries: pa.RecordBatch, shares: np.ndarray, size_bytes: int
) -> Iterator[tuple[int, np.ndarray]]:
    """The rows of each cell, reducer by reducer; about `size_bytes` if rows have similar sizes."""
    rows_each = max(1, entries.num_rows * size_bytes // max(1, entries.nbytes))
    order = np.argsort(shares, kind="stable")
    borders = np.flatnonzero(np.diff(shares[order], prepend=-1, append=-1))
    for start, end in zip(borders[:-1].tolist(), borders[1:].tolist(), strict=True):
        for first in range(start, end, rows_each):
            yield int(shares[order[start]]), order[first : min(first + rows_each, end)]


def _batch(numbers: list[int], packed: list[pa.Buffer]) -> pa.RecordBatch:
    ends = np.cumsum([0, *(each.size for each in packed)], dtype=np.int32)
    # Assembled by hand: `pa.array` of memory views would never release their buffers.
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(packed))]
    values = pa.Array.from_buffers(pa.binary(), len(packed), buffers)
    return pa.RecordBatch.from_arrays([pa.array(numbers, pa.int32()), values], schema=_CELLS)
