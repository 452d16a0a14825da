"""Record bytes -> Arrow columns."""

from __future__ import annotations

from drumlin.records.kernels import layout as at
from drumlin.records.kernels.code.dialect import (
    Pointer,
    bytes_at,
    copy_bytes,
    helper,
    int32s_at,
    int64s_at,
)
from drumlin.records.kernels.code.record import MALFORMED, read_record
from drumlin.records.kernels.code.varints import read_varint, skip_field

#: Returned in place of a position, as `MALFORMED` and `CUT` are.
_NO_ROOM = -2


def decode(
    data: Pointer, size: int, bodies: Pointer, body_count: int, columns: Pointer, state: Pointer
) -> int:
    """Append the records of `body_count` uncompressed bodies in `data[:size]` to columns.

    `state` holds how much of each column is filled, where to continue, and the wanted offsets. The
    kernel stops at a record that does not fit into the columns, or that is cut off at the end of
    its body. Returns `~position` if the input is malformed there.
    """
    index: int = state[at.AT_BODY]
    record: int = state[at.AT_RECORD]
    position: int = state[at.AT_POSITION]
    while index < body_count:
        body = index * at.BODY_WIDTH
        if record == 0 and bodies[body + at.BODY_START] != at.OPEN:
            position = bodies[body + at.BODY_START]
        end: int = bodies[body + at.BODY_END]
        limit = size if end == at.OPEN else end
        count: int = bodies[body + at.BODY_COUNT]
        while record < count:
            next_position = _decode_record(
                data, size, position, limit, bodies, body, columns, state
            )
            if next_position < 0:
                if next_position == MALFORMED:
                    return ~position
                state[at.AT_BODY] = index
                state[at.AT_RECORD] = record
                state[at.AT_POSITION] = position
                return at.IS_FULL if next_position == _NO_ROOM else at.IS_CUT
            position = next_position
            record += 1
        if end != at.OPEN and position != end:
            return ~position
        record = 0
        index += 1
    state[at.AT_BODY] = 0
    state[at.AT_RECORD] = 0
    return at.DONE


@helper
def _decode_record(
    data: Pointer,
    size: int,
    start: int,
    body_end: int,
    bodies: Pointer,
    body: int,
    columns: Pointer,
    state: Pointer,
) -> int:
    """Append the record at `start` if its offset is wanted. Returns the position after it."""
    end, offset, timestamp, key_length, value_at, value_length, headers_at, header_count = (
        read_record(data, start, body_end, bodies, body)
    )
    if end < 0:
        return end
    if offset < state[at.FIRST_OFFSET] or offset >= state[at.END_OFFSET]:
        return end
    row = state[at.ROWS]
    record_size = end - start
    filled = state[at.RECORD_BYTES] + record_size
    if (
        row == state[at.ROWS_MAX]
        or filled > state[at.RECORD_BYTES_MAX]
        or state[at.HEADER_ROWS] + header_count > state[at.HEADER_ROWS_MAX]
    ):
        state[at.NEXT_RECORD_BYTES] = record_size
        state[at.NEXT_HEADER_ROWS] = header_count
        return _NO_ROOM
    state[at.ROWS] = row + 1
    state[at.RECORD_BYTES] = filled
    if columns[at.OFFSETS] != 0:
        int64s_at(columns[at.OFFSETS])[row] = offset
    if columns[at.TIMESTAMPS] != 0:
        int64s_at(columns[at.TIMESTAMPS])[row] = timestamp
    if columns[at.TIMESTAMP_TYPES] != 0:
        int32s_at(columns[at.TIMESTAMP_TYPES])[row] = bodies[body + at.BODY_IS_LOG_APPEND_TIME]
    if columns[at.KEYS] != 0:
        key_start = value_at - max(key_length, 0)
        _append(columns, at.KEYS, row, state, at.KEY_BYTES, data, size, key_start, key_length)
    if columns[at.VALUES] != 0:
        value_start = headers_at - max(value_length, 0)
        _append(
            columns, at.VALUES, row, state, at.VALUE_BYTES, data, size, value_start, value_length
        )
    if columns[at.HEADER_LISTS] != 0:
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
    """Append headers that were validated before; `position` is that of their count."""
    header_row = state[at.HEADER_ROWS]
    _, position = read_varint(data, position, size)
    for _ in range(header_count):
        length, end = skip_field(data, position, size)
        _append(
            columns,
            at.HEADER_KEYS,
            header_row,
            state,
            at.HEADER_KEY_BYTES,
            data,
            size,
            end - length,
            length,
        )
        length, position = skip_field(data, end, size)
        start = position - max(length, 0)
        _append(
            columns,
            at.HEADER_VALUES,
            header_row,
            state,
            at.HEADER_VALUE_BYTES,
            data,
            size,
            start,
            length,
        )
        header_row += 1
    state[at.HEADER_ROWS] = header_row
    int32s_at(columns[at.HEADER_LISTS])[row + 1] = header_row


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
    """Append one value to a binary column; `state[cursor]` counts the column's bytes."""
    written = state[cursor]
    if length >= 0:
        validity = bytes_at(columns[column + at.VALIDITY])
        validity[row >> 3] |= 1 << (row & 7)
        target = bytes_at(columns[column + at.BYTES])
        if length <= at.PADDING and start + at.PADDING <= size:
            # A copy of constant size needs no call; the next value overwrites the excess bytes.
            copy_bytes(target, written, data, start, at.PADDING)
        else:
            copy_bytes(target, written, data, start, length)
        written += length
        state[cursor] = written
    int32s_at(columns[column + at.ENDS])[row + 1] = written
