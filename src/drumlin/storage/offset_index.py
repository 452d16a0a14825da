"""The sparse offset index `%020d.index`: from an offset to a position in the segment.

8 bytes an entry: the last offset of a batch relative to the segment's base offset, and the
position where that batch starts. About one batch in every `index.interval.bytes` has an entry.
"""

from __future__ import annotations

import struct

from drumlin.storage.files import ReadAt
from drumlin.storage.index_file import IndexFile


class OffsetIndex(IndexFile):
    """Maps offsets to positions, from below: the batch wanted starts there or later."""

    LAYOUT = struct.Struct(">ii")
    SUFFIX = ".index"
    __slots__ = ()

    @property
    def last_offset(self) -> int:
        """Largest offset that has an entry, or the base offset."""
        return self.base_offset + (self._last_entry[0] if len(self) and self._last_entry else 0)

    def append(self, last_offset: int, position: int) -> None:
        self.append_entry(last_offset - self.base_offset, position)

    def lookup(self, offset: int, read: ReadAt | None = None) -> int:
        """A position at or before the batch that holds `offset`."""
        entry = self._floor(offset - self.base_offset, 0, read)
        return entry[1] if entry else 0

    def lookup_position(self, position: int) -> int:
        """The last indexed position that is not behind `position`."""
        entry = self._floor(position, 1)
        return entry[1] if entry else 0

    def truncate_to_position(self, position: int) -> None:
        """Forget all batches that start at or behind `position`."""
        count = len(self)
        with self.file as descriptor:
            while count and self._read_entry(descriptor, count - 1)[1] >= position:
                count -= 1
        if count != len(self):
            self.cut_to_count(count)

    def _is_last_entry_sane(self) -> bool:
        entry = self._last_entry
        return entry is not None and entry[0] > 0 and entry[1] > 0
