"""Zigzag varints, the integers inside a record, in plain Python.

Reads are bounded by `end` and by the width of the type: a varint that runs out of its buffer, or
that does not fit, is refused. The kernels follow the same rules (`kernels/code/varints.py`).
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from drumlin.records.batch.corrupt_record import CorruptRecord
from drumlin.wire.uvarint import uvarint

if TYPE_CHECKING:  # `batch` loads a library for checksums, which varints do not need
    from drumlin.records.batch.batch import Buffer

INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1
_INT32_BITS: Final = 32
_INT64_BITS: Final = 64


def read_varint(buffer: Buffer, position: int, end: int) -> tuple[int, int]:
    """A 32-bit integer at `position`, and the position after it.

    Raises:
        CorruptRecord: the varint reaches `end`, or needs more than 32 bits.
    """
    if position < end and (byte := buffer[position]) < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    return _read_long(buffer, position, end, _INT32_BITS)


def read_varlong(buffer: Buffer, position: int, end: int) -> tuple[int, int]:
    """A 64-bit integer at `position`, and the position after it.

    Raises:
        CorruptRecord: the varint reaches `end`, or needs more than 64 bits.
    """
    if position < end and (byte := buffer[position]) < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    return _read_long(buffer, position, end, _INT64_BITS)


def _read_long(buffer: Buffer, position: int, end: int, bits: int) -> tuple[int, int]:
    value = shift = 0
    while position < end:
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >> bits:
                raise CorruptRecord(f"a varint of more than {bits} bits")
            return (value >> 1) ^ -(value & 1), position
        shift += 7
        if shift >= bits:
            raise CorruptRecord(f"a varint of more than {bits} bits")
    raise CorruptRecord("the data ends within a varint")


@lru_cache(maxsize=4096)
def varint(value: int) -> bytes:
    """Encode an integer of up to 64 bits. Cached, as most integers are small lengths that recur."""
    return uvarint((value << 1) ^ (value >> 63))
