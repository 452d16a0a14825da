"""What a linker must know of a machine: how its instructions hold addresses; pure."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final, NamedTuple

X86_64: Final = 62  # as ELF calls them
AARCH64: Final = 183

_INT32: Final = struct.Struct("<i")
_WORD: Final = struct.Struct("<I")
#: aarch64: what an instruction that loads or stores counts its distance in, as a power of two.
_AARCH64_SCALES: Final = {277: 0, 278: 0, 284: 1, 285: 2, 286: 3, 299: 4}
_AARCH64_PAGE: Final = 275
_AARCH64_CALLS: Final = (282, 283)
_AARCH64_DISTANCE: Final = 261
_SMALL_PAGE_BITS: Final = 12


class Machine(NamedTuple):
    """How to link for it."""

    #: Of memory, at most: what is protected in different ways lies in different ones.
    page_size: int
    #: The relocation with which a loader writes a symbol's address.
    address_of: int
    #: Puts the distance to `target` into the instruction or number at `place`, which will lie at
    #: `address`. Raises ValueError for kinds of relocations that kernels have no need of.
    relocate: Callable[[bytearray, int, int, int, int], None]
    #: A jump from an address to wherever the address says that is stored in a slot.
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
    """The field of an ADRP."""
    pages = _bits((target >> _SMALL_PAGE_BITS) - (address >> _SMALL_PAGE_BITS), 21)
    return (pages & 3) << 29 | pages >> 2 << 5


def _within_page(target: int, scale: int) -> int:
    """The field of an ADD, a load or a store."""
    distance = target & ((1 << _SMALL_PAGE_BITS) - 1)
    if distance & ((1 << scale) - 1):
        raise ValueError(f"{target} is not a multiple of {1 << scale}")
    return distance >> scale << 10


def _bits(number: int, size: int) -> int:
    """A number with a sign, in so many bits."""
    if not -(1 << (size - 1)) <= number < 1 << (size - 1):
        raise ValueError(f"{number} is too far")
    return number & ((1 << size) - 1)


MACHINES: Final = {
    X86_64: Machine(1 << 12, 6, _relocate_x86_64, _jump_x86_64),
    AARCH64: Machine(1 << 16, 1025, _relocate_aarch64, _jump_aarch64),
}
