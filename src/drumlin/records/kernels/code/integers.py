"""Big-endian integers, as headers have them."""

from __future__ import annotations

from drumlin.records.kernels.code.dialect import Pointer, helper


@helper
def read_integer(data: Pointer, position: int, size: int) -> int:
    """`size` bytes with a sign."""
    first = data[position]
    value: int = first - 256 if first > 127 else first + 0
    for index in range(position + 1, position + size):
        value = (value << 8) | data[index]
    return value
