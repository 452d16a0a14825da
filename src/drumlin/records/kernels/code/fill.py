"""Arrow columns -> records of many batches that are open, each row to its own batch."""

from __future__ import annotations

from drumlin.records.kernels.code.dialect import Pointer, bytes_at, int64s_at
from drumlin.records.kernels.code.encode import delta_between, record_size, write_record
from drumlin.records.kernels.code.varints import varint_size
from drumlin.records.kernels.layout import (
    OPEN_BASE_TIMESTAMP,
    OPEN_BYTES,
    OPEN_COUNT,
    OPEN_MAX_TIMESTAMP,
    OPEN_ROOM,
    OPEN_TARGET,
    OPEN_WANTED,
    OPEN_WIDTH,
    TIMESTAMPS,
)


def fill(columns: Pointer, places: Pointer, first: int, end: int, batches: Pointer) -> int:
    """Add rows from `first` on, each to the batch that `places` names.

    Returns `end`; or the first row that does not fit its batch, whether there is no room or
    that its timestamp is too far from the batch's first.
    """
    timestamps = int64s_at(columns[TIMESTAMPS])
    for row in range(first, end):
        batch = places[row] * OPEN_WIDTH
        timestamp = timestamps[row]
        count = batches[batch + OPEN_COUNT]
        if count == 0:
            batches[batch + OPEN_BASE_TIMESTAMP] = timestamp
            batches[batch + OPEN_MAX_TIMESTAMP] = timestamp
        delta, fits = delta_between(batches[batch + OPEN_BASE_TIMESTAMP], timestamp)
        size = record_size(columns, row, delta, count)
        position = batches[batch + OPEN_BYTES]
        wanted = varint_size(size) + size
        if not fits or position + wanted > batches[batch + OPEN_ROOM]:
            batches[batch + OPEN_WANTED] = wanted if fits else 0
            return row
        target = bytes_at(batches[batch + OPEN_TARGET])
        position = write_record(columns, row, size, delta, count, target, position)
        batches[batch + OPEN_BYTES] = position
        batches[batch + OPEN_COUNT] = count + 1
        if timestamp > batches[batch + OPEN_MAX_TIMESTAMP]:
            batches[batch + OPEN_MAX_TIMESTAMP] = timestamp
    return end
