"""The sparse time index `%020d.timeindex`: from a timestamp to an offset.

12 bytes an entry: the largest timestamp in the segment so far, and the last offset of its batch
relative to the segment's base offset. Everything at or before that offset is not younger.
"""

from __future__ import annotations

import struct

from drumlin.records.batch import NO_TIMESTAMP
from drumlin.storage.index_file import IndexFile


class TimeIndex(IndexFile):
    """Maps timestamps to offsets; timestamps strictly ascend."""

    LAYOUT = struct.Struct(">qi")
    SUFFIX = ".timeindex"
    __slots__ = ()

    @property
    def last_timestamp(self) -> int:
        return self._last_entry[0] if len(self) and self._last_entry else NO_TIMESTAMP

    @property
    def last_offset(self) -> int:
        return self.base_offset + (self._last_entry[1] if len(self) and self._last_entry else 0)

    def append(self, timestamp: int, offset: int) -> None:
        """Add an entry if it says anything new."""
        if timestamp > self.last_timestamp:
            self.append_entry(timestamp, offset - self.base_offset)

    def lookup(self, timestamp: int) -> int:
        """An offset such that everything before it is older than `timestamp`.

        Entries count from below: with the largest timestamp below the wanted one found at this
        offset, the search goes on from there.
        """
        entry = self._floor(timestamp - 1, 0)
        return self.base_offset + (entry[1] if entry else 0)

    def truncate_to(self, offset: int) -> None:
        """Forget all entries at or above `offset`."""
        count = len(self)
        with self.file as descriptor:
            while count and (
                self._read_entry(descriptor, count - 1)[1] + self.base_offset >= offset
            ):
                count -= 1
        if count != len(self):
            self.cut_to_count(count)

    def _is_last_entry_sane(self) -> bool:
        entry = self._last_entry
        if entry is None or entry[0] < 0:
            return False
        return entry[1] > 0 or len(self) == 1
