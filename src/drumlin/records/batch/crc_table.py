"""The table with which kernels combine the CRC32Cs of neighbouring blocks."""

from __future__ import annotations

import ctypes
import functools
from typing import Any, Final

from drumlin.records.kernels.layout import CRC_STRETCH_SIZE, CRC_TABLE_WIDTH

_CRC32C_POLYNOMIAL: Final = 0x82F63B78
_CRC_BITS: Final = 32


@functools.cache
def crc_table() -> Any:
    """For each byte of a CRC and each of its values, the CRC after a block of zeros."""
    first = []
    for byte in range(CRC_TABLE_WIDTH):
        crc = byte
        for _ in range(8):
            crc = (crc >> 1) ^ (_CRC32C_POLYNOMIAL if crc & 1 else 0)
        first.append(crc)
    bits = [_behind_stretch(1 << bit, first) for bit in range(_CRC_BITS)]
    numbers = [
        _combined(byte, bits[start : start + 8])
        for start in range(0, _CRC_BITS, 8)
        for byte in range(CRC_TABLE_WIDTH)
    ]
    return (ctypes.c_int64 * len(numbers))(*numbers)


def _behind_stretch(crc: int, table: list[int]) -> int:
    for _ in range(CRC_STRETCH_SIZE):
        crc = table[crc & 0xFF] ^ (crc >> 8)
    return crc


def _combined(byte: int, shares: list[int]) -> int:
    """The combined shares of the bits that are set in a byte, as a CRC is linear."""
    crc = 0
    for bit, share in enumerate(shares):
        if byte >> bit & 1:
            crc ^= share
    return crc
