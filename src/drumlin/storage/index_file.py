"""A file of entries of one size, appended in order: what the sparse indexes have in common.

Entries are written with `pwrite` and found with `pread`, not through a mapping: storing into a
mapped page of a full disk, or loading one from a failing disk, kills the process with SIGBUS.
The file holds entries only (nothing is preallocated), so an idle partition's indexes cost no
disk, and a file that was cut back to any earlier size is still a correct, sparser index.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from typing import ClassVar, Final

from drumlin.storage.files import ReadAt
from drumlin.storage.open_files import OpenFiles

_NOT_LOADED: Final = -1

Entry = tuple[int, int]


class IndexFile:
    """Entries of two integers, ascending in both; subclasses give them meaning."""

    LAYOUT: ClassVar[struct.Struct]
    SUFFIX: ClassVar[str]

    __slots__ = ("_files", "_is_synced", "_last_entry", "base_offset", "count", "file")

    def __init__(self, path_prefix: str, base_offset: int, open_files: OpenFiles) -> None:
        self.base_offset = base_offset
        self.file = open_files.file(path_prefix + self.SUFFIX)
        self.count = _NOT_LOADED  # of entries; `load` makes it so
        self._files = open_files.files
        self._is_synced = True
        self._last_entry: Entry | None = None

    # -- what the file holds -----------------------------------------------------------

    def create(self) -> None:
        """An empty file, whatever was there before."""
        self.file.close()
        self._files.create(self.file.path)
        self.count, self._last_entry = 0, None
        self._is_synced = False

    def load(self) -> None:
        """Look at the file, once. Entries that can't be, at its end, count for nothing."""
        if self.count != _NOT_LOADED:
            return
        with self.file as descriptor:
            count = self._files.size(descriptor) // self.LAYOUT.size
            if count and not self._is_sane(self._read_entry(descriptor, count - 1)):

                def is_broken(number: int) -> bool:
                    return not self._is_sane(self._read_entry(descriptor, number))

                count = bisect_left(range(count), True, key=is_broken)
            last_entry = self._read_entry(descriptor, count - 1) if count else None
        self.count, self._last_entry = count, last_entry

    def is_sound(self) -> bool:
        """Whether the file is nothing but entries.

        One whose writer had preallocated it and never came to cut it (an unclean stop of Apache
        Kafka) ends in zeros and is not.
        """
        self.load()
        with self.file as descriptor:
            return self._files.size(descriptor) == self.count * self.LAYOUT.size

    def _is_sane(self, entry: Entry) -> bool:
        """Whether an entry can be one, rather than zeros."""
        raise NotImplementedError

    # -- changing it -------------------------------------------------------------------

    def append_entry(self, entry: Entry) -> None:
        """Write one entry behind the others; after an error there is none."""
        self.load()
        with self.file as descriptor:
            position = self.count * self.LAYOUT.size
            self._files.write_at(descriptor, self.LAYOUT.pack(*entry), position)
        self._last_entry = entry
        self.count += 1
        self._is_synced = False

    def cut_while(self, is_gone: Callable[[Entry], bool]) -> None:
        """Remove entries from the end for as long as `is_gone` says so."""
        self.load()
        count, entry = self.count, self._last_entry
        with self.file as descriptor:
            while entry is not None and is_gone(entry):
                count -= 1
                entry = self._read_entry(descriptor, count - 1) if count else None
            if count < self.count:
                self.count, self._last_entry = count, entry
                self._is_synced = False
                self._files.truncate(descriptor, count * self.LAYOUT.size)

    def sync(self) -> None:
        """Make all entries durable. May run in a thread beside the writer."""
        if self._is_synced:
            return
        self._is_synced = True  # before: an entry that arrives meanwhile makes it false again
        try:
            with self.file as descriptor:
                self._files.sync(descriptor)
        except OSError:
            self._is_synced = False
            raise

    # -- finding -----------------------------------------------------------------------

    def floor(self, target: int, field: int, read: ReadAt | None = None) -> Entry | None:
        """The last entry whose `field` is not above `target`."""
        self.load()
        last_entry = self._last_entry
        if last_entry is None or last_entry[field] <= target:
            return last_entry  # reading near the end needs no search
        with self.file as descriptor:

            def field_at(number: int) -> int:
                return self._read_entry(descriptor, number, read)[field]

            number = bisect_right(range(self.count), target, key=field_at) - 1
            return self._read_entry(descriptor, number, read) if number >= 0 else None

    @property
    def last_entry(self) -> Entry | None:
        self.load()
        return self._last_entry

    def _read_entry(self, descriptor: int, number: int, read: ReadAt | None = None) -> Entry:
        layout = self.LAYOUT
        data = (read or self._files.read_at)(descriptor, layout.size, number * layout.size)
        first, second = layout.unpack(data)
        return first, second
