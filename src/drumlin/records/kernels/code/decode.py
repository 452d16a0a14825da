"""Record bytes -> Arrow columns."""

from __future__ import annotations

from drumlin.records.kernels.code.dialect import (
    Pointer,
    bytes_at,
    copy_bytes,
    helper,
    int32s_at,
    int64s_at,
)
from drumlin.records.kernels.code.varints import (
    add_delta,
    read_varint,
    read_varlong,
    skip_field,
    skip_headers,
)
from drumlin.records.kernels.layout import (
    BODY_BASE_OFFSET,
    BODY_BASE_TIMESTAMP,
    BODY_COUNT,
    BODY_END,
    BODY_IS_LOG_APPEND_TIME,
    BODY_MAX_TIMESTAMP,
    BODY_START,
    BODY_WIDTH,
    BYTES,
    END_OFFSET,
    ENDS,
    FIRST_OFFSET,
    HEADER_KEY_BYTES,
    HEADER_KEYS,
    HEADER_LISTS,
    HEADER_ROWS,
    HEADER_VALUE_BYTES,
    HEADER_VALUES,
    KEY_BYTES,
    KEYS,
    OFFSETS,
    PADDING,
    ROWS,
    TIMESTAMP_TYPES,
    TIMESTAMPS,
    VALIDITY,
    VALUE_BYTES,
    VALUES,
)


def decode(
    data: Pointer, size: int, bodies: Pointer, body_count: int, columns: Pointer, state: Pointer
) -> int:
    """Append the records of `body_count` uncompressed bodies within `data[:size]` to columns.

    `state` holds how far they are filled, and which offsets are wanted.
    Columns have room for all that the bodies can hold. On malformed input: `~position`.
    """
    for index in range(body_count):
        body = index * BODY_WIDTH
        position: int = bodies[body + BODY_START]
        for _ in range(bodies[body + BODY_COUNT]):
            next_position = _decode_record(data, size, position, bodies, body, columns, state)
            if next_position < 0:
                return ~position
            position = next_position
        if position != bodies[body + BODY_END]:
            return ~position
    return 0


@helper
def _decode_record(
    data: Pointer,
    size: int,
    start: int,
    bodies: Pointer,
    body: int,
    columns: Pointer,
    state: Pointer,
) -> int:
    """Append the record at `start` if its offset is wanted; the position behind it, or -1."""
    body_end = bodies[body + BODY_END]
    record_size, position = read_varint(data, start, body_end)
    end = position + record_size
    if record_size < 1 or end > body_end:
        return -1
    timestamp_delta, position = read_varlong(data, position + 1, end)
    offset_delta, position = read_varint(data, position, end)
    key_length, value_at = skip_field(data, position, end)
    value_length, headers_at = skip_field(data, value_at, end)
    header_count, position = skip_headers(data, headers_at, end)
    timestamp, timestamp_fits = add_delta(bodies[body + BODY_BASE_TIMESTAMP], timestamp_delta)
    offset, offset_fits = add_delta(bodies[body + BODY_BASE_OFFSET], offset_delta)
    if position != end or not timestamp_fits or not offset_fits:
        return -1
    if offset < state[FIRST_OFFSET] or offset >= state[END_OFFSET]:
        return end
    if bodies[body + BODY_IS_LOG_APPEND_TIME]:
        timestamp = bodies[body + BODY_MAX_TIMESTAMP]
    row = state[ROWS]
    state[ROWS] = row + 1
    int64s_at(columns[OFFSETS])[row] = offset
    int64s_at(columns[TIMESTAMPS])[row] = timestamp
    int32s_at(columns[TIMESTAMP_TYPES])[row] = bodies[body + BODY_IS_LOG_APPEND_TIME]
    # A field's bytes end where the next field's length begins.
    key_start = value_at - max(key_length, 0)
    value_start = headers_at - max(value_length, 0)
    _append(columns, KEYS, row, state, KEY_BYTES, data, size, key_start, key_length)
    _append(columns, VALUES, row, state, VALUE_BYTES, data, size, value_start, value_length)
    if columns[HEADER_LISTS] != 0:
        _append_headers(columns, row, state, data, size, headers_at, header_count)
    return end


@helper
def _append_headers(
    columns: Pointer,
    row: int,
    state: Pointer,
    data: Pointer,
    size: int,
    position: int,
    header_count: int,
) -> None:
    """Append headers that were found sound; `position` is that of their count."""
    header_row = state[HEADER_ROWS]
    _, position = read_varint(data, position, size)
    for _ in range(header_count):
        length, end = skip_field(data, position, size)
        _append(
            columns,
            HEADER_KEYS,
            header_row,
            state,
            HEADER_KEY_BYTES,
            data,
            size,
            end - length,
            length,
        )
        length, position = skip_field(data, end, size)
        start = position - max(length, 0)
        _append(
            columns, HEADER_VALUES, header_row, state, HEADER_VALUE_BYTES, data, size, start, length
        )
        header_row += 1
    state[HEADER_ROWS] = header_row
    int32s_at(columns[HEADER_LISTS])[row + 1] = header_row


@helper
def _append(
    columns: Pointer,
    column: int,
    row: int,
    state: Pointer,
    cursor: int,
    data: Pointer,
    size: int,
    start: int,
    length: int,
) -> None:
    """Append one value to a binary column; `cursor` is the place of its fill in the state."""
    written = state[cursor]
    if length >= 0:
        validity = bytes_at(columns[column + VALIDITY])
        validity[row >> 3] |= 1 << (row & 7)
        target = bytes_at(columns[column + BYTES])
        if length <= PADDING and start + PADDING <= size:
            # A constant size is a register's move; what it copies too much is overwritten.
            copy_bytes(target, written, data, start, PADDING)
        else:
            copy_bytes(target, written, data, start, length)
        written += length
        state[cursor] = written
    int32s_at(columns[column + ENDS])[row + 1] = written
