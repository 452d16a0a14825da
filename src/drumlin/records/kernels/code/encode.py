"""Arrow columns -> record bytes."""

from __future__ import annotations

from drumlin.records.kernels import layout as at
from drumlin.records.kernels.code.binary_columns import value_length
from drumlin.records.kernels.code.dialect import (
    Pointer,
    bytes_at,
    copy_bytes,
    helper,
    int32s_at,
    int64s_at,
)
from drumlin.records.kernels.code.varints import add_delta, varint_size, write_varint
from drumlin.records.kernels.code.words import prefetch

# How many rows ahead to prefetch, since a partition's rows are scattered in memory.
_AHEAD = 8
_CACHE_LINE = 64


def encode(
    columns: Pointer,
    rows: Pointer,
    first: int,
    end: int,
    target: Pointer,
    room: int,
    result: Pointer,
) -> int:
    """Write the records of one batch: as many of `rows[first:end]` as fit into `target[:room]`.

    Returns the number of records; `~n` if the delta of the n-th timestamp does not fit 64 bits.
    """
    timestamps = int64s_at(columns[at.TIMESTAMPS])
    base_timestamp = timestamps[rows[first]]
    max_timestamp = base_timestamp
    position = 0
    count = 0
    for index in range(first, end):
        row = rows[index]
        if index + _AHEAD < end:
            _fetch(columns, at.VALUES, rows[index + _AHEAD])
        timestamp = timestamps[row]
        delta, fits = delta_between(base_timestamp, timestamp)
        if not fits:
            return ~count
        size = record_size(columns, row, delta, count)
        if position + varint_size(size) + size > room:
            break
        position = write_record(columns, row, size, delta, count, target, position)
        max_timestamp = max(max_timestamp, timestamp)
        count += 1
    result[at.ENCODED_BYTES] = position
    result[at.ENCODED_MAX_TIMESTAMP] = max_timestamp
    return count


@helper
def delta_between(base: int, timestamp: int) -> tuple[int, bool]:
    """The difference of two timestamps, and whether it fits 64 bits."""
    # timestamp - base, without signed overflow: -base is ~base + 1
    delta, _ = add_delta(timestamp, ~base)
    delta, _ = add_delta(delta, 1)
    _, fits = add_delta(base, delta)
    return delta, fits


@helper
def record_size(columns: Pointer, row: int, delta: int, count: int) -> int:
    """The size of a record, without its length field."""
    size = 1 + varint_size(delta) + varint_size(count)
    size += _field_size(columns, at.KEYS, row) + _field_size(columns, at.VALUES, row)
    return size + _headers_size(columns, row)


@helper
def write_record(
    columns: Pointer,
    row: int,
    size: int,
    delta: int,
    count: int,
    target: Pointer,
    position: int,
) -> int:
    """Write a record after the `count` others of its batch. Returns the record's end."""
    position = write_varint(target, position, size)
    target[position] = 0
    position = write_varint(target, position + 1, delta)
    position = write_varint(target, position, count)
    position = _write_field(columns, at.KEYS, row, target, position)
    position = _write_field(columns, at.VALUES, row, target, position)
    return _write_headers(columns, row, target, position)


@helper
def _fetch(columns: Pointer, column: int, row: int) -> None:
    """Prefetch the first cache lines of a value; the processor prefetches the rest itself."""
    if columns[column + at.ENDS] != 0:
        source = bytes_at(columns[column + at.BYTES])
        start = int32s_at(columns[column + at.ENDS])[row]
        prefetch(source, start)
        prefetch(source, start + _CACHE_LINE)


@helper
def _field_size(columns: Pointer, column: int, row: int) -> int:
    length = value_length(columns, column, row)
    return varint_size(length) + max(length, 0)


@helper
def _write_field(columns: Pointer, column: int, row: int, target: Pointer, position: int) -> int:
    length = value_length(columns, column, row)
    position = write_varint(target, position, length)
    if length > 0:
        source = bytes_at(columns[column + at.BYTES])
        start = int32s_at(columns[column + at.ENDS])[row]
        copy_bytes(target, position, source, start, length)
        position += length
    return position


@helper
def _headers_size(columns: Pointer, row: int) -> int:
    if columns[at.HEADER_LISTS] == 0:
        return 1
    lists = int32s_at(columns[at.HEADER_LISTS])
    size = varint_size(lists[row + 1] - lists[row])
    for header in range(lists[row], lists[row + 1]):
        size += _field_size(columns, at.HEADER_KEYS, header)
        size += _field_size(columns, at.HEADER_VALUES, header)
    return size


@helper
def _write_headers(columns: Pointer, row: int, target: Pointer, position: int) -> int:
    if columns[at.HEADER_LISTS] == 0:
        target[position] = 0
        return position + 1
    lists = int32s_at(columns[at.HEADER_LISTS])
    position = write_varint(target, position, lists[row + 1] - lists[row])
    for header in range(lists[row], lists[row + 1]):
        position = _write_field(columns, at.HEADER_KEYS, header, target, position)
        position = _write_field(columns, at.HEADER_VALUES, header, target, position)
    return position
