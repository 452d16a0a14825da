"""Unsigned varints, the protocol's compact lengths and tags: seven bits a byte, lowest first.

Compiled and hand-written readers test for a first byte below 0x80 before they call this module:
nearly all lengths are that short, and a call costs as much as the rest.
"""

from __future__ import annotations

from typing import Any, Final

from drumlin.wire.error_codes import MalformedMessage

#: The varints of one byte, by value.
ONE_BYTE: Final = tuple(bytes((value,)) for value in range(0x80))
_BITS: Final = 35  # of five bytes


def uvarint(value: int) -> bytes:
    if value < 0x80:
        return ONE_BYTE[value]
    if value < 0x4000:
        return bytes((value & 0x7F | 0x80, value >> 7))
    encoded = bytearray()
    put_uvarint(encoded, value)
    return bytes(encoded)


def put_uvarint(buffer: bytearray, value: int) -> None:
    """Append a varint to a buffer."""
    while value > 0x7F:
        buffer.append(value & 0x7F | 0x80)
        value >>= 7
    buffer.append(value)


def read_uvarint(frame: Any, position: int) -> tuple[int, int]:
    """The varint of at most five bytes at `position`, and the position after it.

    Raises:
        MalformedMessage: the varint takes more bytes, or the frame ends within it.
    """
    if position < len(frame) and frame[position] < 0x80:
        return frame[position], position + 1
    value = 0
    for shift in range(0, _BITS, 7):
        if position >= len(frame):
            raise MalformedMessage("ends within a varint")
        byte = frame[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise MalformedMessage("a varint of more than 5 bytes")
