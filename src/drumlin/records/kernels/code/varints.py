"""Zigzag varints, by the same rules as in `records/batch/varint.py`, the version in plain Python.

A read that fails returns the position BEYOND, from which every further read fails too. So a
caller reads a whole record without checks, then compares the position with the record's end.
"""

from __future__ import annotations

from drumlin.records.kernels.code.dialect import Pointer, helper

BEYOND = 1 << 62
VARINT_BYTES_MAX = 5
_WITHOUT_SIGN = (1 << 63) - 1


@helper
def read_varint(data: Pointer, position: int, end: int) -> tuple[int, int]:
    """A 32-bit integer, and the position after it."""
    if position >= end:
        return 0, BEYOND
    byte = data[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    value = byte & 0x7F
    shift = 7
    while shift < 35:
        position += 1
        if position >= end:
            return 0, BEYOND
        byte = data[position]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if shift == 28 and byte > 0x0F:
                return 0, BEYOND
            return (value >> 1) ^ -(value & 1), position + 1
        shift += 7
    return 0, BEYOND


@helper
def read_varlong(data: Pointer, position: int, end: int) -> tuple[int, int]:
    """A 64-bit integer, and the position after it."""
    if position >= end:
        return 0, BEYOND
    byte = data[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    value = byte & 0x7F
    shift = 7
    while shift < 70:
        position += 1
        if position >= end:
            return 0, BEYOND
        byte = data[position]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if shift == 63 and byte > 1:
                return 0, BEYOND
            return ((value >> 1) & _WITHOUT_SIGN) ^ -(value & 1), position + 1
        shift += 7
    return 0, BEYOND


@helper
def varint_size(value: int) -> int:
    """The encoded size of an integer of up to 64 bits."""
    zigzag = (value << 1) ^ (value >> 63)
    size = 1
    while zigzag < 0 or zigzag > 0x7F:
        zigzag = (zigzag >> 7) & (_WITHOUT_SIGN >> 6)
        size += 1
    return size


@helper
def write_varint(target: Pointer, position: int, value: int) -> int:
    """Write an integer of up to 64 bits. Returns the position after it."""
    zigzag = (value << 1) ^ (value >> 63)
    while zigzag < 0 or zigzag > 0x7F:
        target[position] = (zigzag & 0x7F) | 0x80
        zigzag = (zigzag >> 7) & (_WITHOUT_SIGN >> 6)
        position += 1
    target[position] = zigzag
    return position + 1


@helper
def skip_field(data: Pointer, position: int, end: int) -> tuple[int, int]:
    """The length (-1: null) of a key, value or header field, and the position after its bytes.

    The position may be after `end`; it is BEYOND if the length is invalid.
    """
    length, position = read_varint(data, position, end)
    if length < -1:
        return 0, BEYOND
    if length > 0:
        return length, position + length
    return length, position


@helper
def skip_headers(data: Pointer, position: int, end: int) -> tuple[int, int]:
    """The number of a record's headers, and the position after them."""
    count, position = read_varint(data, position, end)
    if count < 0 or count > end - position:
        return 0, BEYOND
    for _ in range(count):
        key_length, position = skip_field(data, position, end)
        if key_length < 0:
            return 0, BEYOND
        _, position = skip_field(data, position, end)
    return count, position


@helper
def add_delta(base: int, delta: int) -> tuple[int, bool]:
    """The sum of a base and a delta, and whether it fits 64 bits."""
    # Added in two unsigned halves, as the dialect forbids overflow of signed sums.
    low = (base & 0xFFFFFFFF) + (delta & 0xFFFFFFFF)
    high = ((base >> 32) & 0xFFFFFFFF) + ((delta >> 32) & 0xFFFFFFFF) + (low >> 32)
    total = (high << 32) | (low & 0xFFFFFFFF)
    return total, ((base ^ total) & (delta ^ total)) >= 0
