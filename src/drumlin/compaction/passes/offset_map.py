"""The offset map: the last offset of every key in the dirty part of a log, in 14 bytes.

    10 bytes  of the key's 128-bit hash
     4 bytes  offset relative to the map's base offset, plus 1; 0 if the slot is empty

The other 48 bits of the hash select the slot where the search starts; the search continues from
slot to slot. Two keys are confused if the 80 bits are equal and both searches reach the same slot.
Kernels fill and read the map. A map belongs to one cleaning and one thread.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import mmap
import os
import struct
from typing import Final

from drumlin.records.kernels import compaction_kernels
from drumlin.records.kernels.compaction_layout import (
    OFFSET_MAP_ADDRESS,
    OFFSET_MAP_BASE_OFFSET,
    OFFSET_MAP_CAPACITY,
    OFFSET_MAP_COUNT,
    OFFSET_MAP_LATEST_OFFSET,
    OFFSET_MAP_SEED_0,
    OFFSET_MAP_SEED_1,
    OFFSET_MAP_SLOT_SIZE,
    OFFSET_MAP_SLOTS,
    OFFSET_MAP_WIDTH,
)
from drumlin.records.plain.keyed_hash import SEED_SIZE

NO_OFFSET: Final = -1
_BITMAP_BYTES_MAX: Final = 64 << 20

_SIGNED: Final = struct.Struct("<qq")
_Words = ctypes.c_int64 * OFFSET_MAP_WIDTH


def capacity_within(memory_bytes: int, load_factor: float) -> int:
    """The number of keys that fit into a map of `memory_bytes`."""
    return math.floor(memory_bytes // OFFSET_MAP_SLOT_SIZE * load_factor)


class OffsetMap:
    """A hash table from keys to their last offsets, of a fixed size."""

    def __init__(
        self,
        memory_bytes: int,
        base_offset: int,
        *,
        load_factor: float = 0.9,
        expected_keys: int | None = None,
        seed: bytes | None = None,
    ) -> None:
        """Allocate an empty map.

        Args:
            memory_bytes: the maximum size of the map.
            base_offset: the smallest offset that may be put.
            load_factor: the largest part of the slots that may be filled.
            expected_keys: limits the map to the size that these keys need.
            seed: the key of the hash, 16 bytes; for tests.
        """
        if expected_keys is not None:
            needed_slots = math.ceil(max(1, expected_keys) / load_factor)
            memory_bytes = min(memory_bytes, needed_slots * OFFSET_MAP_SLOT_SIZE)
        slots = memory_bytes // OFFSET_MAP_SLOT_SIZE
        if slots < 1 or not 0 < load_factor <= 1 or base_offset < 0:
            raise ValueError(f"no map of {memory_bytes} bytes with load factor {load_factor}")
        self.seed: Final = os.urandom(SEED_SIZE) if seed is None else seed
        self._memory = mmap.mmap(
            -1, slots * OFFSET_MAP_SLOT_SIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        )
        with contextlib.suppress(AttributeError, OSError):  # not available on every system
            self._memory.madvise(mmap.MADV_HUGEPAGE)
        # Keeps the memory at its address as long as kernels may use it.
        self._first_byte: ctypes.c_char | None = ctypes.c_char.from_buffer(self._memory)
        #: The description of the map for kernels; see `layout.py`.
        self.words: Final = _Words()
        self.words[OFFSET_MAP_ADDRESS] = ctypes.addressof(self._first_byte)
        self.words[OFFSET_MAP_SLOTS] = slots
        # At least one slot must stay empty, so that every search ends.
        self.words[OFFSET_MAP_CAPACITY] = min(math.floor(slots * load_factor), slots - 1)
        self.words[OFFSET_MAP_BASE_OFFSET] = base_offset
        self.words[OFFSET_MAP_LATEST_OFFSET] = NO_OFFSET
        self.words[OFFSET_MAP_SEED_0], self.words[OFFSET_MAP_SEED_1] = _SIGNED.unpack(self.seed)

    @property
    def capacity(self) -> int:
        """The number of keys that fit into the map."""
        return self.words[OFFSET_MAP_CAPACITY]

    @property
    def count(self) -> int:
        """The number of keys in the map."""
        return self.words[OFFSET_MAP_COUNT]

    @property
    def utilisation(self) -> float:
        """The used part of the capacity, from 0 to 1."""
        return self.count / self.capacity if self.capacity else 1.0

    @property
    def is_full(self) -> bool:
        """Whether no new key fits."""
        return self.count >= self.capacity

    @property
    def memory_bytes(self) -> int:
        return self.words[OFFSET_MAP_SLOTS] * OFFSET_MAP_SLOT_SIZE

    @property
    def base_offset(self) -> int:
        return self.words[OFFSET_MAP_BASE_OFFSET]

    @property
    def latest_offset(self) -> int:
        """The last offset that was processed, with or without a key; -1 if there is none."""
        return self.words[OFFSET_MAP_LATEST_OFFSET]

    @latest_offset.setter
    def latest_offset(self, offset: int) -> None:
        self.words[OFFSET_MAP_LATEST_OFFSET] = offset

    def survivors_bitmap(self, start_offset: int, end_offset: int) -> bytearray | None:
        """A bitmap of the offsets that are the last of their key, from `start_offset` on.

        Bit n is `bitmap[n // 8] >> (n % 8) & 1`. None if it would take more than an eighth of the
        map's memory, or more than 64 MiB.
        """
        size = (max(0, end_offset - start_offset) + 7) // 8
        if size > min(self.memory_bytes // 8, _BITMAP_BYTES_MAX):
            return None
        bitmap = bytearray(size)
        if size:
            target = ctypes.byref(ctypes.c_char.from_buffer(bitmap))
            kernels = compaction_kernels.required()
            kernels.mark_survivors(self.words, start_offset, end_offset, target)
        return bitmap

    def close(self) -> None:
        """Free the memory. The map must not be used afterwards."""
        self._first_byte = None
        self.words[OFFSET_MAP_ADDRESS] = 0
        self._memory.close()
