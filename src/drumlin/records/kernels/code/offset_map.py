"""The offset map's slots; `compaction/passes/offset_map.py` describes their format."""

from __future__ import annotations

from drumlin.records.kernels import compaction_layout as at
from drumlin.records.kernels.code.dialect import Pointer, bytes_at, helper
from drumlin.records.kernels.code.words import (
    high_product,
    load_word,
    prefetch,
    shift_right,
    store_word,
)

# A slot is read as two words that overlap: its bytes 0 to 7, and 6 to 13.
_SECOND_WORD = 6
_HASH_MASK = 0xFFFFFFFF  # the hash's part of the second word
_OFFSET_SHIFT = 32
_CACHE_LINE = 64


@helper
def home(offset_map: Pointer, second: int) -> int:
    """The position of the first slot to search for a key, from the second half of its hash."""
    slot: int = high_product(second & ~0xFFFF, offset_map[at.OFFSET_MAP_SLOTS])
    return slot * at.OFFSET_MAP_SLOT_SIZE


@helper
def expect(offset_map: Pointer, position: int) -> None:
    """Prefetch the slots from a key's home; most searches need no others."""
    slots = bytes_at(offset_map[at.OFFSET_MAP_ADDRESS])
    prefetch(slots, position)
    prefetch(slots, position + _CACHE_LINE)


@helper
def find(offset_map: Pointer, position: int, first: int, second: int) -> tuple[int, int]:
    """The position of a key's slot, or of the empty slot for it; and its relative offset + 1, or 0.

    `position` is the key's home.
    """
    slots = bytes_at(offset_map[at.OFFSET_MAP_ADDRESS])
    end = offset_map[at.OFFSET_MAP_SLOTS] * at.OFFSET_MAP_SLOT_SIZE
    rest = _rest_of_hash(first, second)
    while True:
        word = load_word(slots, position + _SECOND_WORD)
        seen = shift_right(word, _OFFSET_SHIFT)
        if seen == 0:
            return position, 0
        if word & _HASH_MASK == rest and load_word(slots, position) == first:
            return position, seen
        position += at.OFFSET_MAP_SLOT_SIZE
        if position == end:
            position = 0


@helper
def put(offset_map: Pointer, position: int, first: int, second: int, offset: int) -> bool:
    """Store the offset of a key's record. Returns False if there is no room.

    `position` is the key's home; `offset` must not be less than the map's base offset.
    """
    relative = offset - offset_map[at.OFFSET_MAP_BASE_OFFSET]
    if relative > at.OFFSET_MAP_RELATIVE_MAX:
        return False
    position, seen = find(offset_map, position, first, second)
    if seen == 0:
        if offset_map[at.OFFSET_MAP_COUNT] >= offset_map[at.OFFSET_MAP_CAPACITY]:
            return False
        offset_map[at.OFFSET_MAP_COUNT] += 1
    if relative + 1 > seen:
        slots = bytes_at(offset_map[at.OFFSET_MAP_ADDRESS])
        word = _rest_of_hash(first, second) | ((relative + 1) << _OFFSET_SHIFT)
        store_word(slots, position, first)
        store_word(slots, position + _SECOND_WORD, word)
    return True


@helper
def _rest_of_hash(first: int, second: int) -> int:
    """The hash bits in a slot's second word: the rest of the first half, and 16 of the second."""
    rest: int = shift_right(first, 48) | ((second & 0xFFFF) << 16)
    return rest


def mark_survivors(offset_map: Pointer, start: int, end: int, bitmap: Pointer) -> int:
    """Set the bits of all offsets from `start` to `end` that are in the map."""
    slots = bytes_at(offset_map[at.OFFSET_MAP_ADDRESS])
    shift = offset_map[at.OFFSET_MAP_BASE_OFFSET] - 1 - start
    size = end - start
    for slot in range(offset_map[at.OFFSET_MAP_SLOTS]):
        word = load_word(slots, slot * at.OFFSET_MAP_SLOT_SIZE + _SECOND_WORD)
        seen = shift_right(word, _OFFSET_SHIFT)
        index = seen + shift
        if seen != 0 and index >= 0 and index < size:
            bitmap[index >> 3] |= 1 << (index & 7)
    return 0
