"""CRC32C in kernels: by an instruction or by a table, it is that of the library."""

from __future__ import annotations

import ctypes
import random
from typing import Any

import pytest
from crc32c import crc32c as by_library
from numba import cfunc, types

from drumlin.records.crc_table import crc_table
from drumlin.records.kernels.code.crc32c import by_table, crc32c


@pytest.mark.parametrize("step", [crc32c, by_table], ids=["as compiled here", "by table"])
def test_any_size_from_anywhere(step: Any) -> None:
    pointer: Any = types.CPointer
    number = types.int64

    @cfunc(number(pointer(types.uint8), number, number, pointer(number)))
    def compute(data: Any, position: int, end: int, table: Any) -> int:
        return step(data, position, end, table)

    function = ctypes.CFUNCTYPE(
        ctypes.c_int64, ctypes.c_char_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p
    )(compute.address)
    data = random.Random(1).randbytes(5000)
    sizes = [*range(40), *range(760, 800), *range(1530, 1560), 4000]
    for size in sizes:
        for position in (0, 1, 7):
            expected = by_library(data[position : position + size])
            assert function(data, position, position + size, crc_table()) == expected
