"""CRC32C with the processor's own instruction, which all variants in `processor.py` have."""

from __future__ import annotations

from typing import Any, Final

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from drumlin.records.kernels.code.dialect import Pointer, helper
from drumlin.records.kernels.code.words import load_word
from drumlin.records.kernels.layout import CRC_STRETCH_SIZE, CRC_TABLE_WIDTH

#: Functions that add a word or a byte to a CRC. `toolchain/variants.py` defines them with each
#: processor's own instruction. Their arguments and results are 64-bit integers.
WORD_STEP: Final = "drumlin_crc32c_word"
BYTE_STEP: Final = "drumlin_crc32c_byte"
STEPS: Final = (WORD_STEP, BYTE_STEP)


def _inline(generator: Any) -> Any:
    return intrinsic(generator)


def _call_of(name: str) -> Any:
    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        function = builder.module.globals.get(name)
        if function is None:
            word = ir.IntType(64)
            function = ir.Function(builder.module, ir.FunctionType(word, [word, word]), name)
        return builder.call(function, arguments)

    return types.int64(types.int64, types.int64), generate


@_inline
def _by_word(_context: Any, _crc: Any, _word: Any) -> Any:
    return _call_of(WORD_STEP)


@_inline
def _by_byte(_context: Any, _crc: Any, _byte: Any) -> Any:
    return _call_of(BYTE_STEP)


@helper
def crc32c(data: Pointer, position: int, end: int, table: Pointer) -> int:
    """CRC32C of `data[position:end]`; the table is that of `records/batch/crc_table.py`.

    Processes three stretches at a time, since the processor can execute three independent steps in
    the time of one.
    """
    stretch = CRC_STRETCH_SIZE
    crc = 0xFFFFFFFF
    while position + 3 * stretch <= end:
        second, third = 0, 0
        for place in range(position, position + stretch, 8):
            crc = _by_word(crc, load_word(data, place))
            second = _by_word(second, load_word(data, place + stretch))
            third = _by_word(third, load_word(data, place + 2 * stretch))
        crc = _behind_stretch(_behind_stretch(crc, table) ^ second, table) ^ third
        position += 3 * stretch
    while position + 8 <= end:
        crc = _by_word(crc, load_word(data, position))
        position += 8
    while position < end:
        crc = _by_byte(crc, data[position] + 0)
        position += 1
    return crc ^ 0xFFFFFFFF


@helper
def _behind_stretch(crc: int, table: Pointer) -> int:
    """The CRC, continued over a stretch of zeros."""
    moved: int = (
        table[crc & 0xFF]
        ^ table[CRC_TABLE_WIDTH + ((crc >> 8) & 0xFF)]
        ^ table[2 * CRC_TABLE_WIDTH + ((crc >> 16) & 0xFF)]
        ^ table[3 * CRC_TABLE_WIDTH + ((crc >> 24) & 0xFF)]
    )
    return moved
