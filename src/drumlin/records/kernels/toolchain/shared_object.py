"""Links one ELF object file into a shared library. Pure.

The object file is LLVM's output for the kernels: position-independent code and constants, which
call some functions of the C library. A library has three segments, each in its own pages:

    constants       the tables for the loader, and the constants of the code
    code            followed by one jump for each imported function
    addresses       of the imported functions: the loader writes them, then makes them read-only

Addresses are relative to the beginning of the library, and equal the positions in its file.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from drumlin.records.kernels.toolchain.machines import MACHINES
from drumlin.records.kernels.toolchain.object_file import (
    FILE_HEADER,
    GLOBAL_FUNCTION,
    IDENT,
    RELOCATION,
    SYMBOL,
    ObjectFile,
    Symbol,
    read,
)

_SEGMENT: Final = struct.Struct("<IIQQQQQQ")
_SEGMENT_COUNT: Final = 6
_PAIR: Final = struct.Struct("<QQ")
_SLOT_SIZE: Final = 8
_JUMP_SIZE: Final = 16

_SHARED: Final = 3
_GLOBAL: Final = 0x10
_LOADED, _DYNAMIC, _STACK, _PROTECTED = 1, 2, 0x6474E551, 0x6474E552
_EXECUTE, _WRITE, _READ = 1, 2, 4
_ALL_AT_ONCE: Final = 8


def link(file: bytes) -> bytes:
    """Link an object file into a library that exports each of its global functions.

    Raises:
        ValueError: the object file contains something that this linker does not support.
    """
    return _Link(read(file)).library()


class _Link:
    """Computes the layout of a library, then builds it."""

    def __init__(self, source: ObjectFile) -> None:
        if source.machine not in MACHINES:
            raise ValueError(f"machine {source.machine}")
        self._source = source
        self._machine = MACHINES[source.machine]
        self._wanted = [each for each in source.symbols if each.section == 0 and each.name]
        self._defined = [
            each for each in source.symbols if each.section and each.kind == GLOBAL_FUNCTION
        ]
        named = self._wanted + self._defined
        self._names = b"\0" + b"".join(each.name + b"\0" for each in named)
        self._sections: dict[int, int] = {}  # number -> address
        self._end = FILE_HEADER.size + _SEGMENT_COUNT * _SEGMENT.size
        self._hash = self._place(4 * (4 + len(named)))
        self._symbols = self._place(SYMBOL.size * (1 + len(named)))
        self._strings = self._place(len(self._names))
        self._fixes = self._place(RELOCATION.size * len(self._wanted))
        self._place_sections(is_code=False)
        self._code = self._place(0, self._machine.page_size)
        self._place_sections(is_code=True)
        self._jumps = self._place(_JUMP_SIZE * len(self._wanted), _JUMP_SIZE)
        self._written = self._place(0, self._machine.page_size)
        self._slots = self._place(_SLOT_SIZE * len(self._wanted))
        self._dynamic = self._place(_PAIR.size * len(self._directions()))
        # Protection covers whole pages.
        self._place(0, self._machine.page_size)

    def _place(self, size: int, alignment: int = 16) -> int:
        place = self._end + -self._end % alignment
        self._end = place + size
        return place

    def _place_sections(self, *, is_code: bool) -> None:
        for section in self._source.sections:
            if section.is_code == is_code:
                place = self._place(len(section.content), section.alignment)
                self._sections[section.number] = place

    def library(self) -> bytes:
        """The content of the library's file."""
        file = bytearray(self._end)
        for place, content in (
            (0, self._header()),
            (FILE_HEADER.size, b"".join(_SEGMENT.pack(*each) for each in self._segments())),
            (self._hash, self._hash_table()),
            (self._symbols, b"".join(SYMBOL.pack(*each) for each in self._symbol_rows())),
            (self._strings, self._names),
            (self._fixes, b"".join(RELOCATION.pack(*each) for each in self._fix_rows())),
            (self._dynamic, b"".join(_PAIR.pack(*each) for each in self._directions())),
        ):
            file[place : place + len(content)] = content
        for section in self._source.sections:
            place = self._sections[section.number]
            file[place : place + len(section.content)] = section.content
        for index in range(len(self._wanted)):
            place = self._jumps + index * _JUMP_SIZE
            jump = self._machine.jump(place, self._slots + index * _SLOT_SIZE)
            file[place : place + len(jump)] = jump
        for relocation in self._source.relocations:
            if relocation.section in self._sections:
                place = self._sections[relocation.section] + relocation.place
                target = self._address(relocation.symbol) + relocation.addend
                self._machine.relocate(file, place, relocation.kind, place, target)
        return bytes(file)

    def _address(self, symbol: Symbol) -> int:
        if symbol.section == 0:
            return self._jumps + self._wanted.index(symbol) * _JUMP_SIZE
        return self._sections[symbol.section] + symbol.value

    def _header(self) -> bytes:
        sizes = FILE_HEADER.size, _SEGMENT.size, _SEGMENT_COUNT, 0, 0, 0
        segments = FILE_HEADER.size
        return FILE_HEADER.pack(IDENT, _SHARED, self._source.machine, 1, 0, segments, 0, 0, *sizes)

    def _segments(self) -> list[tuple[int, ...]]:
        page = self._machine.page_size
        directions_end = self._dynamic + _PAIR.size * len(self._directions())
        rows = [
            (_LOADED, _READ, 0, self._code, page),
            (_LOADED, _READ | _EXECUTE, self._code, self._written, page),
            (_LOADED, _READ | _WRITE, self._written, self._end, page),
            (_DYNAMIC, _READ | _WRITE, self._dynamic, directions_end, _SLOT_SIZE),
            (_PROTECTED, _READ, self._written, self._end, 1),
            (_STACK, _READ | _WRITE, 0, 0, 16),
        ]
        return [
            (kind, may, start, start, start, stop - start, stop - start, alignment)
            for kind, may, start, stop, alignment in rows
        ]

    def _hash_table(self) -> bytes:
        """A hash table with one chain of all symbols: there are few, and each is looked up once."""
        count = 1 + len(self._wanted) + len(self._defined)
        chain = [0, *range(2, count), 0]
        return struct.pack(f"<{3 + count}I", 1, count, 1, *chain)

    def _symbol_rows(self) -> Iterator[tuple[int, ...]]:
        yield 0, 0, 0, 0, 0, 0
        name = 1
        for symbol in self._wanted:
            yield name, _GLOBAL, 0, 0, 0, 0
            name += len(symbol.name) + 1
        for symbol in self._defined:
            # Any section number but 0 means that this library defines the symbol.
            yield name, GLOBAL_FUNCTION, 0, 1, self._address(symbol), symbol.size
            name += len(symbol.name) + 1

    def _fix_rows(self) -> Iterator[tuple[int, int, int]]:
        for index in range(len(self._wanted)):
            slot = self._slots + index * _SLOT_SIZE
            yield slot, (1 + index) << 32 | self._machine.address_of, 0

    def _directions(self) -> list[tuple[int, int]]:
        """The dynamic section: where the loader finds each table."""
        return [
            (4, self._hash),
            (5, self._strings),
            (6, self._symbols),
            (10, len(self._names)),
            (11, SYMBOL.size),
            (7, self._fixes),
            (8, RELOCATION.size * len(self._wanted)),
            (9, RELOCATION.size),
            (30, _ALL_AT_ONCE),
            (0, 0),
        ]
