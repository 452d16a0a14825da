"""Finding batches without a surviving record, without reading their records. Pure.

If the map's survivors are marked by offset, a batch of the dirty part in which no offset is marked
is dropped as a whole. The first pass has read its records; they need not be decompressed again.
"""

from __future__ import annotations

from drumlin.records.batch.batch import BatchHeader


class SurvivorBitmap:
    """A bit for each offset in a range: it is the last of its key. All records there have keys."""

    def __init__(self, bitmap: bytearray, start_offset: int, end_offset: int) -> None:
        self._bitmap = bitmap
        self._start = start_offset
        self._end = end_offset

    def has_none_of(self, header: BatchHeader) -> bool:
        """Whether no record of a batch survives: each has a later one of its key."""
        if header.base_offset < self._start or header.last_offset >= self._end:
            return False
        first, last = header.base_offset - self._start, header.last_offset - self._start
        bits = int.from_bytes(self._bitmap[first >> 3 : (last >> 3) + 1], "little") >> (first & 7)
        return not bits & ((1 << (last - first + 1)) - 1)
