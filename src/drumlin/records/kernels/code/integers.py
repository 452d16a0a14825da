"""Reads and writes big-endian integers, as in batch headers."""

from __future__ import annotations

from drumlin.records.kernels.code.dialect import Pointer, helper


@helper
def read_integer(data: Pointer, position: int, size: int) -> int:
    """A signed integer of `size` bytes."""
    first = data[position]
    value: int = first - 256 if first > 127 else first + 0
    for index in range(position + 1, position + size):
        value = (value << 8) | data[index]
    return value


@helper
def write_integer(target: Pointer, position: int, size: int, value: int) -> None:
    """Write the lowest `size` bytes of a number."""
    for index in range(size):
        target[position + index] = (value >> (8 * (size - 1 - index))) & 0xFF
