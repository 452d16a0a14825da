"""Finding batches without surviving records, without reading their records. Pure.

If the map's survivors are marked in a bitmap of offsets, a batch of the dirty part without a marked
offset is dropped as a whole. Pass 1 has read its records already, so pass 2 need not decompress the
batch.
"""

from __future__ import annotations

from drumlin.records.batch.batch import BatchHeader


class SurvivorBitmap:
    """The bitmap of the last offsets of keys in a range, where all records have keys."""

    def __init__(self, bitmap: bytearray, start_offset: int, end_offset: int) -> None:
        self._bitmap = bitmap
        self._start = start_offset
        self._end = end_offset

    def has_none_of(self, header: BatchHeader) -> bool:
        """Whether no record of a batch survives, as each has a later record of its key."""
        if header.base_offset < self._start or header.last_offset >= self._end:
            return False
        first, last = header.base_offset - self._start, header.last_offset - self._start
        bits = int.from_bytes(self._bitmap[first >> 3 : (last >> 3) + 1], "little") >> (first & 7)
        return not bits & ((1 << (last - first + 1)) - 1)
