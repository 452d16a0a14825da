"""What kernels compute CRC32C with, on processors that have no instruction for it."""

from __future__ import annotations

import ctypes
import functools
from typing import Any, Final

from drumlin.records.kernels.layout import CRC_TABLE_ROWS, CRC_TABLE_WIDTH

_CRC32C_POLYNOMIAL: Final = 0x82F63B78


@functools.cache
def crc_table() -> Any:
    """For CRC32C by eight bytes at a time: row n is a byte's share, n bytes before the end."""
    first = []
    for byte in range(CRC_TABLE_WIDTH):
        crc = byte
        for _ in range(8):
            crc = (crc >> 1) ^ (_CRC32C_POLYNOMIAL if crc & 1 else 0)
        first.append(crc)
    rows = [first]
    for _ in range(CRC_TABLE_ROWS - 1):
        rows.append([first[crc & 0xFF] ^ (crc >> 8) for crc in rows[-1]])
    numbers = [crc for row in rows for crc in row]
    return (ctypes.c_int64 * len(numbers))(*numbers)
