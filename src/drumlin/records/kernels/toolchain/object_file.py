"""Parses an ELF object file, as LLVM writes it for the kernels. Pure."""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

FILE_HEADER: Final = struct.Struct("<16sHHIQQQIHHHHHH")
SYMBOL: Final = struct.Struct("<IBBHQQ")
RELOCATION: Final = struct.Struct("<QQq")
_SECTION: Final = struct.Struct("<IIQQQQIIQQ")

IDENT: Final = b"\x7fELF\x02\x01\x01" + bytes(9)  # 64 bits, little-endian
GLOBAL_FUNCTION: Final = 0x12
_OBJECT: Final = 1
_CONTENT, _SYMBOLS, _RELOCATIONS = 1, 2, 4
_WRITABLE, _IN_MEMORY, _EXECUTABLE = 1, 2, 4


class Section(NamedTuple):
    """Code or constants, to be loaded into memory."""

    number: int
    is_code: bool
    content: bytes
    alignment: int


class Symbol(NamedTuple):
    """A named address; section 0 means that another library defines it."""

    name: bytes
    kind: int
    section: int
    value: int
    size: int


class Relocation(NamedTuple):
    """A place in a section into which the linker writes the address of a symbol."""

    section: int
    place: int
    kind: int
    symbol: Symbol
    addend: int


class ObjectFile(NamedTuple):
    """The parts of an object file that the linker needs."""

    machine: int
    sections: list[Section]
    symbols: list[Symbol]
    relocations: list[Relocation]


def read(file: bytes) -> ObjectFile:
    """Parse an object file.

    Raises:
        ValueError: this is not an object file, or it has writable data.
    """
    ident, kind, machine, _, _, _, start, *_, count, _ = FILE_HEADER.unpack_from(file)
    if ident != IDENT or kind != _OBJECT:
        raise ValueError("not an object file")
    table = [_SECTION.unpack_from(file, start + index * _SECTION.size) for index in range(count)]
    contents = [file[row[4] : row[4] + row[5]] for row in table]
    sections, symbols, relocations = [], [], []
    for index, (_, kind, flags, _, _, _, _, _, alignment, _) in enumerate(table):
        if flags & _IN_MEMORY and contents[index]:
            if kind != _CONTENT or flags & _WRITABLE:
                raise ValueError("a section that is neither code nor constants")
            is_code = bool(flags & _EXECUTABLE)
            sections.append(Section(index, is_code, contents[index], max(alignment, 1)))
        elif kind == _SYMBOLS:
            names = contents[table[index][6]]
            symbols = [_symbol(names, *row) for row in SYMBOL.iter_unpack(contents[index])]
    for index, row in enumerate(table):
        if row[1] == _RELOCATIONS:
            relocations += [
                Relocation(row[7], place, info & 0xFFFFFFFF, symbols[info >> 32], addend)
                for place, info, addend in RELOCATION.iter_unpack(contents[index])
            ]
    return ObjectFile(machine, sections, symbols, relocations)


def _symbol(
    names: bytes, name: int, kind: int, _visibility: int, section: int, value: int, size: int
) -> Symbol:
    return Symbol(names[name : names.index(b"\0", name)], kind, section, value, size)
