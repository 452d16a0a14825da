"""Relocations and jumps of each CPU architecture, for the linker. Pure."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final, NamedTuple

X86_64: Final = 62  # e_machine of ELF
AARCH64: Final = 183

_INT32: Final = struct.Struct("<i")
_WORD: Final = struct.Struct("<I")
#: aarch64: relocation type -> log2 of the access size, by which an instruction scales its offset.
_AARCH64_SCALES: Final = {277: 0, 278: 0, 284: 1, 285: 2, 286: 3, 299: 4}
_AARCH64_PAGE: Final = 275
_AARCH64_CALLS: Final = (282, 283)
_AARCH64_DISTANCE: Final = 261
_SMALL_PAGE_BITS: Final = 12


class Machine(NamedTuple):
    """The linking rules of one CPU architecture."""

    #: The largest page size. Sections with different protection go on different pages.
    page_size: int
    #: The relocation with which a loader writes a symbol's address.
    address_of: int
    #: Applies a relocation: `(code, place, kind, address, target)`. Writes the distance to `target`
    #: into the instruction or number at `code[place]`, which will be loaded at `address`. Raises
    #: ValueError for a kind of relocation that kernels do not need.
    relocate: Callable[[bytearray, int, int, int, int], None]
    #: `(address, slot)` -> an indirect jump, placed at `address`, to the target stored in `slot`.
    jump: Callable[[int, int], bytes]


def _relocate_x86_64(code: bytearray, place: int, kind: int, address: int, target: int) -> None:
    if kind not in (2, 4):  # PC32, PLT32
        raise ValueError(f"relocation {kind} of x86-64")
    _INT32.pack_into(code, place, target - address)


def _jump_x86_64(address: int, slot: int) -> bytes:
    return b"\xff\x25" + _INT32.pack(slot - (address + 6))  # jmp *slot(%rip)


def _relocate_aarch64(code: bytearray, place: int, kind: int, address: int, target: int) -> None:
    (word,) = _WORD.unpack_from(code, place)
    if kind == _AARCH64_PAGE:
        word |= _pages_between(address, target)
    elif kind in _AARCH64_CALLS:
        word |= _bits((target - address) >> 2, 26)
    elif kind == _AARCH64_DISTANCE:
        word = _bits(target - address, 32)
    elif kind in _AARCH64_SCALES:
        word |= _within_page(target, _AARCH64_SCALES[kind])
    else:
        raise ValueError(f"relocation {kind} of aarch64")
    _WORD.pack_into(code, place, word)


def _jump_aarch64(address: int, slot: int) -> bytes:
    return b"".join(
        _WORD.pack(word)
        for word in (
            0x90000010 | _pages_between(address, slot),  # adrp x16, slot
            0xF9400211 | _within_page(slot, 3),  # ldr x17, [x16, slot]
            0xD61F0220,  # br x17
        )
    )


def _pages_between(address: int, target: int) -> int:
    """The number of pages to the target, as encoded in an ADRP."""
    pages = _bits((target >> _SMALL_PAGE_BITS) - (address >> _SMALL_PAGE_BITS), 21)
    return (pages & 3) << 29 | pages >> 2 << 5


def _within_page(target: int, scale: int) -> int:
    """The offset of the target in its page, as encoded in an ADD, a load or a store."""
    distance = target & ((1 << _SMALL_PAGE_BITS) - 1)
    if distance & ((1 << scale) - 1):
        raise ValueError(f"{target} is not a multiple of {1 << scale}")
    return distance >> scale << 10


def _bits(number: int, size: int) -> int:
    """A signed number in `size` bits (two's complement)."""
    if not -(1 << (size - 1)) <= number < 1 << (size - 1):
        raise ValueError(f"{number} does not fit into {size} bits")
    return number & ((1 << size) - 1)


MACHINES: Final = {
    X86_64: Machine(1 << 12, 6, _relocate_x86_64, _jump_x86_64),
    AARCH64: Machine(1 << 16, 1025, _relocate_aarch64, _jump_aarch64),
}
