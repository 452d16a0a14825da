"""The entries of a state on their way through the shuffle: Arrow rows, packed into cells.

Spark would convert every row into its own form and back. A cell holds thousands of rows in one
value, as Arrow wrote them, so that Spark moves bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from drumlin.spark.columns import arrow_schema

#: What tells two entries of one key apart, and one that is deleted.
_NEEDED: Final = ("key", "value", "partition", "offset")

#: Rows of the shuffle, for Spark and as Arrow has them.
CELLS_DDL: Final = "reducer int, packed binary"
_CELLS: Final = pa.schema([("reducer", pa.int32()), ("packed", pa.binary())])


def entry_columns(columns: Sequence[str]) -> list[str]:
    """The columns that entries need, for a result with `columns`."""
    more = [name for name in columns if name not in (*_NEEDED, "topic")]
    return [*_NEEDED, *more]


def without_values(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same entries, where only tombstones are told from values: those are made empty."""
    column = batch.schema.get_field_index("value")
    nothing = pc.if_else(pc.is_valid(batch.column(column)), pa.scalar(b""), pa.scalar(None, "binary"))
    return batch.set_column(column, "value", nothing)


def cells(
    entries: pa.RecordBatch, reducers: np.ndarray, cell_bytes: int
) -> Iterator[pa.RecordBatch]:
    """The entries, packed for their reducers; batches of about `cell_bytes` or less."""
    order = np.argsort(reducers, kind="stable")
    entries, reducers = entries.take(pa.array(order)), reducers[order]
    borders = np.flatnonzero(np.diff(reducers, prepend=-1, append=-1))
    numbers: list[int] = []
    packed: list[pa.Buffer] = []
    waiting_bytes = 0
    for start, end in zip(borders[:-1].tolist(), borders[1:].tolist(), strict=True):
        for piece in _pieces(entries.slice(start, end - start), cell_bytes):
            cell = piece.serialize()
            if numbers and waiting_bytes + cell.size > cell_bytes:
                yield _batch(numbers, packed)
                numbers, packed, waiting_bytes = [], [], 0
            numbers.append(int(reducers[start]))
            packed.append(cell)
            waiting_bytes += cell.size
    if numbers:
        yield _batch(numbers, packed)


def unpacked(batch: pa.RecordBatch, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The entries in a batch of cells."""
    schema = arrow_schema(columns)
    for cell in batch.column("packed"):
        # A copy: Arrow wants its buffers aligned, and nothing of the batch is to be held.
        yield pa.ipc.read_record_batch(pa.py_buffer(cell.as_py()), schema)


def _pieces(entries: pa.RecordBatch, size_bytes: int) -> Iterator[pa.RecordBatch]:
    """Parts with the same number of rows, of about `size_bytes`."""
    count = max(1, min(entries.num_rows, -(-entries.nbytes // size_bytes)))
    rows = -(-entries.num_rows // count)
    for start in range(0, entries.num_rows, rows):
        yield entries.slice(start, rows)


def _batch(numbers: list[int], packed: list[pa.Buffer]) -> pa.RecordBatch:
    columns = [pa.array(numbers, pa.int32()), pa.array(map(memoryview, packed), pa.binary())]
    return pa.RecordBatch.from_arrays(columns, schema=_CELLS)
