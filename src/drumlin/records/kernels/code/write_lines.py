"""Record bytes -> lines of text, each made of fields and of text between them."""

from __future__ import annotations

from drumlin.records.kernels import layout as at
from drumlin.records.kernels.code.dialect import Pointer, copy_bytes, helper
from drumlin.records.kernels.code.record import CUT, MALFORMED, read_record

_NO_ROOM = -2
_ZERO = 48
_MINUS = 45
#: Texts up to this size are copied byte by byte: a call takes longer.
_SHORT = 8


def write_lines(
    data: Pointer,
    size: int,
    bodies: Pointer,
    body_count: int,
    parts: Pointer,
    texts: Pointer,
    target: Pointer,
    state: Pointer,
) -> int:
    """Append a line for each record of `body_count` uncompressed bodies in `data[:size]`.

    `parts` has the parts of a line, with places in `texts`. `state` holds how much of `target` is
    filled, where to continue, and the wanted offsets. The kernel stops at the wanted number of
    lines, and at a line that does not fit. Returns `~position` if the input is malformed there.
    """
    index: int = state[at.LINES_AT_BODY]
    record: int = state[at.LINES_AT_RECORD]
    position: int = state[at.LINES_AT_POSITION]
    while index < body_count:
        body = index * at.BODY_WIDTH
        if record == 0:
            position = bodies[body + at.BODY_START]
        end: int = bodies[body + at.BODY_END]
        count: int = bodies[body + at.BODY_COUNT]
        while record < count and state[at.LINES_COUNT] < state[at.LINES_COUNT_MAX]:
            next_position = _write_line(
                data, size, position, end, bodies, body, parts, texts, target, state
            )
            if next_position < 0:
                if next_position in (MALFORMED, CUT):
                    return ~position
                state[at.LINES_AT_BODY] = index
                state[at.LINES_AT_RECORD] = record
                state[at.LINES_AT_POSITION] = position
                return at.IS_FULL
            position = next_position
            record += 1
        if record < count:
            return at.DONE
        if position != end:
            return ~position
        record = 0
        index += 1
    return at.DONE


@helper
def _write_line(
    data: Pointer,
    size: int,
    start: int,
    body_end: int,
    bodies: Pointer,
    body: int,
    parts: Pointer,
    texts: Pointer,
    target: Pointer,
    state: Pointer,
) -> int:
    """Append the line of the record at `start` if it is wanted. Returns the position after it."""
    end, offset, timestamp, key_length, key_end, value_length, value_end, _ = read_record(
        data, start, body_end, bodies, body
    )
    if end < 0:
        return end
    if offset < state[at.LINES_FIRST_OFFSET] or offset >= state[at.LINES_END_OFFSET]:
        return end
    written: int = state[at.LINES_BYTES]
    needed = parts[at.LINE_BYTES_MAX] + at.PADDING
    needed += parts[at.LINE_KEYS] * max(key_length, 0)
    needed += parts[at.LINE_VALUES] * max(value_length, 0)
    if written + needed > state[at.LINES_ROOM]:
        state[at.LINES_NEEDED] = needed
        return _NO_ROOM
    for part in range(parts[at.LINE_PARTS]):
        at_part = at.LINE_WIDTH + part * at.LINE_PART_WIDTH
        kind = parts[at_part]
        length = key_length if kind == at.LINE_KEY else value_length
        if kind == at.LINE_OFFSET:
            written = _write_number(target, written, offset)
        elif kind == at.LINE_TIMESTAMP:
            written = _write_number(target, written, timestamp)
        elif kind == at.LINE_TEXT or length < 0:  # of a null, the text that stands for it
            first = parts[at_part + 1]
            length = parts[at_part + 2] - first
            if length <= _SHORT:
                for byte in range(length):
                    target[written + byte] = texts[first + byte]
            else:
                copy_bytes(target, written, texts, first, length)
            written += length
        else:
            first = (key_end if kind == at.LINE_KEY else value_end) - length
            if length <= at.PADDING and first + at.PADDING <= size:
                # A copy of constant size needs no call; what follows overwrites the excess bytes.
                copy_bytes(target, written, data, first, at.PADDING)
            else:
                copy_bytes(target, written, data, first, length)
            written += length
    state[at.LINES_BYTES] = written
    state[at.LINES_COUNT] += 1
    state[at.LINES_LAST_OFFSET] = offset
    return end


@helper
def _write_number(target: Pointer, position: int, number: int) -> int:
    """Write a number in decimal digits. Returns the position after it."""
    if number < 0:
        target[position] = _MINUS
        position += 1
    digits = 1
    rest = _tenth(number)
    while rest != 0:
        rest = _tenth(rest)
        digits += 1
    end = position + digits
    for place in range(1, digits + 1):
        tenth = _tenth(number)
        # The lowest number has no positive counterpart: digits are taken as they are signed.
        target[end - place] = _ZERO + abs(number - 10 * tenth)
        number = tenth
    return end


@helper
def _tenth(number: int) -> int:
    """A tenth, rounded towards zero."""
    return -(number // -10) if number < 0 else number // 10
