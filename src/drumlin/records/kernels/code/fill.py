"""Arrow columns -> records of many open batches; each row has its own target batch."""

from __future__ import annotations

from drumlin.records.kernels import layout as at
from drumlin.records.kernels.code.dialect import Pointer, bytes_at, int64s_at
from drumlin.records.kernels.code.encode import delta_between, record_size, write_record
from drumlin.records.kernels.code.varints import varint_size


def fill(columns: Pointer, places: Pointer, first: int, end: int, batches: Pointer) -> int:
    """Add `rows[first:end]` to batches; `places` has the number of each row's batch.

    Returns `end`; or the first row that does not fit into its batch, either for lack of room or
    because the difference of its timestamp and the batch's first does not fit 64 bits.
    """
    timestamps = int64s_at(columns[at.TIMESTAMPS])
    for row in range(first, end):
        batch = places[row] * at.OPEN_WIDTH
        timestamp = timestamps[row]
        count = batches[batch + at.OPEN_COUNT]
        if count == 0:
            batches[batch + at.OPEN_BASE_TIMESTAMP] = timestamp
            batches[batch + at.OPEN_MAX_TIMESTAMP] = timestamp
        delta, fits = delta_between(batches[batch + at.OPEN_BASE_TIMESTAMP], timestamp)
        size = record_size(columns, row, delta, count)
        position = batches[batch + at.OPEN_BYTES]
        wanted = varint_size(size) + size
        if not fits or position + wanted > batches[batch + at.OPEN_ROOM]:
            batches[batch + at.OPEN_WANTED] = wanted if fits else 0
            return row
        target = bytes_at(batches[batch + at.OPEN_TARGET])
        position = write_record(columns, row, size, delta, count, target, position)
        batches[batch + at.OPEN_BYTES] = position
        batches[batch + at.OPEN_COUNT] = count + 1
        if timestamp > batches[batch + at.OPEN_MAX_TIMESTAMP]:
            batches[batch + at.OPEN_MAX_TIMESTAMP] = timestamp
    return end
