"""The cleaner's offset map, read and written in plain Python beside the kernels."""

from __future__ import annotations

import struct

from drumlin.compaction.passes.offset_map import OffsetMap
from drumlin.records.batch.batch import Buffer
from drumlin.records.kernels.compaction_layout import (
    OFFSET_MAP_COUNT,
    OFFSET_MAP_RELATIVE_MAX,
    OFFSET_MAP_SLOT_SIZE,
    OFFSET_MAP_SLOTS,
)
from drumlin.records.plain.keyed_hash import keyed_hash

_SLOT = struct.Struct("<QHI")  # hash, hash, relative offset + 1


class PlainMap(OffsetMap):
    """The same memory as a kernel sees it."""

    def put(self, key: Buffer, offset: int) -> bool:
        """Store a key's offset; a larger one stays. False if there is no room for the key.

        Raises:
            ValueError: the offset is smaller than the map's first one.
        """
        relative = offset - self.base_offset
        if relative < 0:
            raise ValueError(f"offset {offset} in a map from {self.base_offset} on")
        if relative > OFFSET_MAP_RELATIVE_MAX:
            return False
        position, seen = self._find(key)
        if seen == 0:
            if self.is_full:
                return False
            self.words[OFFSET_MAP_COUNT] += 1
        if relative + 1 > seen:
            first, second = keyed_hash(key, self.seed)
            _SLOT.pack_into(self._memory, position, first, second & 0xFFFF, relative + 1)
        return True

    def get(self, key: Buffer) -> int | None:
        """The last offset of a key; None if it was not put."""
        _, seen = self._find(key)
        return self.base_offset + seen - 1 if seen else None

    def _find(self, key: Buffer) -> tuple[int, int]:
        """Position and content (0: empty) of the slot of a key, or of the empty one for it."""
        first, second = keyed_hash(key, self.seed)
        slots = self.words[OFFSET_MAP_SLOTS]
        slot = ((second >> 16) * slots) >> 48
        while True:
            position = slot * OFFSET_MAP_SLOT_SIZE
            found, found_rest, seen = _SLOT.unpack_from(self._memory, position)
            if seen == 0 or (found == first and found_rest == second & 0xFFFF):
                return position, seen
            slot = slot + 1 if slot + 1 < slots else 0

    def plain_bitmap(self, start_offset: int, end_offset: int) -> bytearray:
        """What `survivors_bitmap` is to be."""
        bitmap = bytearray((max(0, end_offset - start_offset) + 7) // 8)
        for _, _, seen in _SLOT.iter_unpack(self._memory):
            offset = self.base_offset + seen - 1
            if seen and start_offset <= offset < end_offset:
                index = offset - start_offset
                bitmap[index >> 3] |= 1 << (index & 7)
        return bitmap
