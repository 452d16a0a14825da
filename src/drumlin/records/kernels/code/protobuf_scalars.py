"""Decodes single Protobuf values into a node."""

from __future__ import annotations

from drumlin.records.kernels import values_layout as at
from drumlin.records.kernels.code.dialect import Pointer, helper
from drumlin.records.kernels.code.nodes import add_1, add_4, add_8, add_16, add_bytes, lacks_bytes
from drumlin.records.kernels.code.utf8 import is_text
from drumlin.records.kernels.code.varints import BEYOND
from drumlin.records.kernels.code.words import load_word

_LOW = 0xFFFFFFFF
_WITHOUT_SIGN = (1 << 63) - 1
_GROUPS_MAX = 2
_NUMBER_BITS = 29
_NUMBER_MAX = (1 << _NUMBER_BITS) - 1
_SECONDS_MIN = -62_135_596_800  # start of year 1
_SECONDS_MAX = 253_402_300_799  # end of year 9999
_NANOS_MAX = 999_999_999


@helper
def read_unsigned(data: Pointer, position: int, end: int) -> tuple[int, int]:
    """The 64 bits of a varint, and the position after it (BEYOND: malformed)."""
    value = 0
    shift = 0
    while shift < 70:
        if position >= end:
            return 0, BEYOND
        byte = data[position]
        position += 1
        if shift == 63 and byte > 1:
            return 0, BEYOND
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    return 0, BEYOND


@helper
def read_size(data: Pointer, position: int, end: int) -> tuple[int, int]:
    """A size, and the position after it (BEYOND: malformed, or larger than the rest)."""
    size, position = read_unsigned(data, position, end)
    if position == BEYOND or size < 0 or size > end - position:
        return 0, BEYOND
    return size, position


@helper
def skip_value(data: Pointer, position: int, end: int, tag: int) -> int:
    """Skip a value. Returns the position after it (BEYOND: malformed).

    Groups may be nested two deep, as the numbers of the open groups must fit into one word.
    """
    numbers = 0
    depth = 0
    while True:
        wire = tag & 7
        if wire == at.WIRE_VARINT:
            _, position = read_unsigned(data, position, end)
        elif wire == at.WIRE_SIZED:
            size, position = read_size(data, position, end)
            position += size
        elif wire == at.WIRE_8:
            position = position + 8 if end - position >= 8 else BEYOND
        elif wire == at.WIRE_4:
            position = position + 4 if end - position >= 4 else BEYOND
        elif wire == at.WIRE_GROUP and depth < _GROUPS_MAX:
            numbers = numbers << _NUMBER_BITS | tag >> 3
            depth += 1
        elif wire == at.WIRE_GROUP_END and depth > 0 and numbers & _NUMBER_MAX == tag >> 3:
            numbers >>= _NUMBER_BITS
            depth -= 1
        else:
            return BEYOND
        if position == BEYOND or depth == 0:
            return position
        tag, position = read_unsigned(data, position, end)
        if position == BEYOND or tag >> 3 < 1 or tag >> 3 > _NUMBER_MAX:
            return BEYOND


@helper
def _word_4(data: Pointer, position: int) -> int:
    low = data[position] | data[position + 1] << 8 | data[position + 2] << 16
    high = data[position + 3]
    value: int = low | high << 24
    return value


@helper
def _signed_32(value: int) -> int:
    low = value & _LOW
    return low - ((low >> 31) << 32)


@helper
def _unzigzag(value: int) -> int:
    return ((value >> 1) & _WITHOUT_SIGN) ^ -(value & 1)


@helper
def add_value(
    kind: int, data: Pointer, position: int, end: int, nodes: Pointer, node: int, state: Pointer
) -> tuple[int, int]:
    """Add a value. Returns 0, a fault or `VALUES_FULL`; and the position after the value."""
    state[at.VALUES_FULL_NODE] = node
    state[at.VALUES_FULL_BYTES] = 0
    if kind == at.TYPE_STRING or kind == at.TYPE_BYTES or kind == at.TYPE_ENCODED:
        return _add_sized(kind, data, position, end, nodes, node, state)
    if kind == at.TYPE_TIMESTAMP:
        return _add_timestamp(data, position, end, nodes, node)
    if at.TYPE_FIXED32 <= kind <= at.TYPE_8:
        return _add_word(kind, data, position, end, nodes, node)
    value, position = read_unsigned(data, position, end)
    if position == BEYOND:
        return at.FAULT_INTEGER, position
    if kind == at.TYPE_INT32:
        has_room = add_4(nodes, node, _signed_32(value))
    elif kind == at.TYPE_INT64:
        has_room = add_8(nodes, node, value)
    elif kind == at.TYPE_UINT32:
        has_room = add_8(nodes, node, value & _LOW)
    elif kind == at.TYPE_UINT64:
        has_room = add_16(nodes, node, value, 0)
    elif kind == at.TYPE_SINT32:
        has_room = add_4(nodes, node, _signed_32(_unzigzag(value & _LOW)))
    elif kind == at.TYPE_SINT64:
        has_room = add_8(nodes, node, _unzigzag(value))
    else:
        has_room = add_1(nodes, node, 1 if value != 0 else 0)
    return (0 if has_room else at.VALUES_FULL), position


@helper
def _add_word(
    kind: int, data: Pointer, position: int, end: int, nodes: Pointer, node: int
) -> tuple[int, int]:
    size = 4 if kind == at.TYPE_FIXED32 or kind == at.TYPE_4 else 8
    if end - position < size:
        return at.FAULT_CUT, position
    if kind == at.TYPE_FIXED32:
        has_room = add_8(nodes, node, _word_4(data, position))
    elif kind == at.TYPE_4:
        has_room = add_4(nodes, node, _signed_32(_word_4(data, position)))
    elif kind == at.TYPE_FIXED64:
        has_room = add_16(nodes, node, load_word(data, position), 0)
    else:
        has_room = add_8(nodes, node, load_word(data, position))
    return (0 if has_room else at.VALUES_FULL), position + size


@helper
def _add_sized(
    kind: int, data: Pointer, position: int, end: int, nodes: Pointer, node: int, state: Pointer
) -> tuple[int, int]:
    size, position = read_size(data, position, end)
    if position == BEYOND:
        return at.FAULT_LENGTH, position
    if kind == at.TYPE_STRING and not is_text(data, position, position + size):
        return at.FAULT_TEXT, position
    if lacks_bytes(nodes, node, size):
        state[at.VALUES_FULL_BYTES] = size
        return at.VALUES_FULL, position
    if not add_bytes(nodes, node, data, position, size):
        return at.VALUES_FULL, position
    return 0, position + size


@helper
def _add_timestamp(
    data: Pointer, position: int, end: int, nodes: Pointer, node: int
) -> tuple[int, int]:
    """Add a Timestamp, converted to microseconds and rounded down."""
    size, position = read_size(data, position, end)
    if position == BEYOND:
        return at.FAULT_LENGTH, position
    after = position + size
    seconds, nanos = 0, 0
    while position < after:
        tag, position = read_unsigned(data, position, after)
        if position == BEYOND or tag >> 3 < 1 or tag >> 3 > _NUMBER_MAX:
            return at.FAULT_TAG, position
        if tag == 1 << 3:
            seconds, position = read_unsigned(data, position, after)
        elif tag == 2 << 3:
            nanos, position = read_unsigned(data, position, after)
        else:
            position = skip_value(data, position, after, tag)
        if position == BEYOND:
            return at.FAULT_CUT, position
    if seconds < _SECONDS_MIN or seconds > _SECONDS_MAX or nanos < 0 or nanos > _NANOS_MAX:
        return at.FAULT_TIME, position
    if not add_8(nodes, node, seconds * 1_000_000 + nanos // 1000):
        return at.VALUES_FULL, position
    return 0, after
