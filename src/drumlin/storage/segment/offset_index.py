"""The sparse offset index `%020d.index`: from an offset to a position in the segment.

An entry has 8 bytes: the last offset of a batch relative to the segment's base offset, and the
position of the batch. About one batch in every `index.interval.bytes` has an entry.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from drumlin.storage.files.files import ReadAt
from drumlin.storage.segment.index_file import Entry, IndexFile


class OffsetIndex(IndexFile):
    """Maps an offset to a position at or before its batch."""

    LAYOUT = struct.Struct(">ii")
    SUFFIX = ".index"
    __slots__ = ()

    def append(self, last_offset: int, position: int) -> None:
        self.append_entry((last_offset - self.base_offset, position))

    def append_all(self, entries: Iterable[tuple[int, int]]) -> None:
        """Append several entries."""
        self.append_entries([(last - self.base_offset, position) for last, position in entries])

    def lookup(self, offset: int, read: ReadAt | None = None) -> int:
        """A position at or before the batch that holds `offset`."""
        entry = self.floor(offset - self.base_offset, 0, read)
        return entry[1] if entry else 0

    @property
    def last_position(self) -> int:
        """The position of the last batch with an entry, or 0."""
        entry = self.last_entry
        return entry[1] if entry else 0

    def truncate_to_position(self, position: int) -> None:
        """Remove the entries of batches that start at or after `position`."""
        self.cut_while(lambda entry: entry[1] >= position)

    def _is_sane(self, entry: Entry) -> bool:
        # The first batch never has an entry.
        return entry[0] > 0 and entry[1] > 0
