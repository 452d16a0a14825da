"""The wire format of Protobuf, field by field, without schemas. Pure.

Of a message only what is asked for is read: an inner message is a view that its reader may leave
alone. The number of fields that are read of all of a push is limited by a `Budget`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, TypeAlias

#: A number, or the bytes of a text or an inner message. Fixed numbers are their bytes.
Value: TypeAlias = "int | memoryview"

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_SIZES: Final = {_FIXED64: 8, _FIXED32: 4}
_VARINT_BITS: Final = 70
_DOUBLE: Final = struct.Struct("<d")
_SIGNED: Final = struct.Struct("<q")


class Malformed(Exception):
    """The bytes are no such message."""


class Budget:
    """The fields that may still be read."""

    __slots__ = ("fields",)

    def __init__(self, fields: int) -> None:
        self.fields = fields

    def spend(self) -> None:
        """
        Raises:
            Malformed: there were too many fields.
        """
        self.fields -= 1
        if self.fields < 0:
            raise Malformed("too many fields")


def fields_in(message: memoryview, budget: Budget) -> Iterator[tuple[int, Value]]:
    """The fields of a message in their order, each as its number and its value.

    Raises:
        Malformed: the message is damaged, or the budget is spent.
    """
    position, end = 0, len(message)
    while position < end:
        budget.spend()
        key, position = _varint(message, position)
        number, kind = key >> 3, key & 7
        if not number:
            raise Malformed("a field without a number")
        if kind == _VARINT:
            value, position = _varint(message, position)
            yield number, value
            continue
        if kind == _BYTES:
            size, position = _varint(message, position)
        elif kind in _SIZES:
            size = _SIZES[kind]
        else:
            raise Malformed(f"a field of the unknown kind {kind}")
        if size > end - position:
            raise Malformed("ends within a field")
        yield number, message[position : position + size]
        position += size


def _varint(message: memoryview, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, _VARINT_BITS, 7):
        if position >= len(message):
            raise Malformed("ends within a number")
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, position
    raise Malformed("a number of more than 10 bytes")


def message_of(value: Value) -> memoryview:
    """An inner message, or the bytes of a text.

    Raises:
        Malformed: the field is a number.
    """
    if isinstance(value, int):
        raise Malformed("a number where a message is expected")
    return value


def text_of(value: Value, longest: int) -> str:
    """A text, cut after this many bytes. What is not UTF-8 is replaced.

    Raises:
        Malformed: the field is a number.
    """
    return bytes(message_of(value)[:longest]).decode(errors="replace")


def double_of(value: Value) -> float:
    """
    Raises:
        Malformed: the field is no double.
    """
    number: float
    (number,) = _DOUBLE.unpack(_fixed(value, _DOUBLE.size))
    return number


def fixed_int_of(value: Value) -> int:
    """
    Raises:
        Malformed: the field is no number of eight bytes.
    """
    number: int
    (number,) = _SIGNED.unpack(_fixed(value, _SIGNED.size))
    return number


def int_of(value: Value) -> int:
    """A signed number that was written as a varint.

    Raises:
        Malformed: the field is no varint.
    """
    if not isinstance(value, int):
        raise Malformed("bytes where a number is expected")
    return value - (1 << 64) if value >> 63 else value


def _fixed(value: Value, size: int) -> memoryview:
    octets = message_of(value)
    if len(octets) != size:
        raise Malformed("a number of the wrong size")
    return octets
