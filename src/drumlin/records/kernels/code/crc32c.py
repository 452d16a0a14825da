"""CRC32C: by the processor's own instruction where it has one, else by a table."""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from drumlin.records.kernels.code.dialect import Pointer, helper
from drumlin.records.kernels.code.words import load_word
from drumlin.records.kernels.layout import CRC_STRETCH_ROW, CRC_STRETCH_SIZE, CRC_TABLE_WIDTH


def _instructions() -> tuple[str, str, ir.Type] | None:
    """LLVM's names for the steps by a word and by a byte, and the type of the state in the first.

    None where this processor, which kernels are compiled for, has no such thing.
    """
    features = llvm.get_host_cpu_features()
    if features.get("sse4.2"):
        return "llvm.x86.sse42.crc32.64.64", "llvm.x86.sse42.crc32.32.8", ir.IntType(64)
    if features.get("crc"):
        return "llvm.aarch64.crc32cx", "llvm.aarch64.crc32cb", ir.IntType(32)
    return None


_INSTRUCTIONS = _instructions()


def _step(builder: Any, name: str, state: Any, state_type: Any, data: Any, data_type: Any) -> Any:
    """One instruction; the state comes and goes as 64 bits, the upper half of them zero."""
    function = builder.module.globals.get(name)
    if function is None:
        kind = ir.FunctionType(state_type, [state_type, data_type])
        function = ir.Function(builder.module, kind, name)
    if state_type.width < state.type.width:
        state = builder.trunc(state, state_type)
    if data_type.width < data.type.width:
        data = builder.trunc(data, data_type)
    result = builder.call(function, [state, data])
    return builder.zext(result, ir.IntType(64)) if state_type.width < 64 else result


def _inline(generator: Any) -> Any:
    return intrinsic(generator)


@_inline
def _by_word(_context: Any, _crc: Any, _word: Any) -> Any:
    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        assert _INSTRUCTIONS is not None
        name, _, state_type = _INSTRUCTIONS
        crc, word = arguments
        return _step(builder, name, crc, state_type, word, ir.IntType(64))

    return types.int64(types.int64, types.int64), generate


@_inline
def _by_byte(_context: Any, _crc: Any, _byte: Any) -> Any:
    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        assert _INSTRUCTIONS is not None
        _, name, state_type = _INSTRUCTIONS
        # aarch64 takes a byte as 32 bits, and looks at eight of them.
        data_type = ir.IntType(8 if state_type.width == 64 else 32)
        crc, byte = arguments
        return _step(builder, name, crc, ir.IntType(32), byte, data_type)

    return types.int64(types.int64, types.int64), generate


@helper
def _by_instruction(data: Pointer, position: int, end: int, table: Pointer) -> int:
    """Three stretches at a time: a step takes the processor as long as three do in a row."""
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
    """What becomes of a CRC over a stretch of zeros."""
    row = CRC_STRETCH_ROW * CRC_TABLE_WIDTH
    moved: int = (
        table[row + (crc & 0xFF)]
        ^ table[row + CRC_TABLE_WIDTH + ((crc >> 8) & 0xFF)]
        ^ table[row + 2 * CRC_TABLE_WIDTH + ((crc >> 16) & 0xFF)]
        ^ table[row + 3 * CRC_TABLE_WIDTH + ((crc >> 24) & 0xFF)]
    )
    return moved


@helper
def by_table(data: Pointer, position: int, end: int, table: Pointer) -> int:
    """Eight bytes at a time; `table` has a row for each of the eight."""
    row = CRC_TABLE_WIDTH
    crc = 0xFFFFFFFF
    while position + 8 <= end:
        low = crc ^ (
            data[position]
            | (data[position + 1] << 8)
            | (data[position + 2] << 16)
            | (data[position + 3] << 24)
        )
        crc = (
            table[7 * row + (low & 0xFF)]
            ^ table[6 * row + ((low >> 8) & 0xFF)]
            ^ table[5 * row + ((low >> 16) & 0xFF)]
            ^ table[4 * row + ((low >> 24) & 0xFF)]
            ^ table[3 * row + data[position + 4]]
            ^ table[2 * row + data[position + 5]]
            ^ table[row + data[position + 6]]
            ^ table[data[position + 7]]
        )
        position += 8
    while position < end:
        crc = table[(crc ^ data[position]) & 0xFF] ^ (crc >> 8)
        position += 1
    return crc ^ 0xFFFFFFFF


#: CRC32C of `data[position:end]`. The table is that of `records/crc_table.py`.
crc32c = by_table if _INSTRUCTIONS is None else _by_instruction
