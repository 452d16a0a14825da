"""The sparse time index `%020d.timeindex`: from a timestamp to an offset.

An entry has 12 bytes: the largest timestamp in the segment so far, and the last offset of its batch
relative to the segment's base offset. No record up to that offset has a later timestamp.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from drumlin.records.batch.batch import NO_TIMESTAMP
from drumlin.storage.segment.index_file import Entry, IndexFile


class TimeIndex(IndexFile):
    """Maps timestamps to offsets; timestamps strictly ascend."""

    LAYOUT = struct.Struct(">qi")
    SUFFIX = ".timeindex"
    __slots__ = ()

    def append(self, timestamp: int, offset: int) -> None:
        """Add an entry if its timestamp is above the last one."""
        last = self.last_entry
        if timestamp > (last[0] if last else NO_TIMESTAMP):
            self.append_entry((timestamp, offset - self.base_offset))

    def append_all(self, entries: Iterable[tuple[int, int]]) -> None:
        """Append several entries."""
        last = self.last_entry
        timestamp = last[0] if last else NO_TIMESTAMP
        new: list[Entry] = []
        for each, offset in entries:
            if each > timestamp:
                timestamp = each
                new.append((each, offset - self.base_offset))
        self.append_entries(new)

    @property
    def last(self) -> tuple[int, int]:
        """The last entry's timestamp and offset; (-1, base offset) if there is none."""
        entry = self.last_entry
        return (
            (entry[0], self.base_offset + entry[1]) if entry else (NO_TIMESTAMP, self.base_offset)
        )

    def lookup(self, timestamp: int) -> int:
        """An offset before which all records are older than `timestamp`."""
        entry = self.floor(timestamp - 1, 0)
        return self.base_offset + (entry[1] if entry else 0)

    def truncate_to(self, offset: int) -> None:
        """Remove all entries at or above `offset`."""
        self.cut_while(lambda entry: entry[1] + self.base_offset >= offset)

    def _is_sane(self, entry: Entry) -> bool:
        return entry[0] > 0 or entry[1] > 0
