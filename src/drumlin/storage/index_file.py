"""A file of entries of one size, appended in order: what the sparse indexes have in common.

Entries are written with `pwrite` and found with `pread`, not through a mapping: storing into a
mapped page of a full disk, or loading one from a failing disk, kills the process with SIGBUS.
The file holds entries only (nothing is preallocated), so an idle partition's indexes cost no
disk, and a file that was cut back to any earlier size is still a correct, sparser index.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from typing import ClassVar

from drumlin.storage.files import ReadAt
from drumlin.storage.open_files import OpenFiles

_NOT_LOADED = -1


class IndexFile:
    """Entries of two integers, ascending in both; subclasses give them meaning."""

    LAYOUT: ClassVar[struct.Struct]
    SUFFIX: ClassVar[str]

    __slots__ = ("_count", "_files", "_last_entry", "base_offset", "file", "is_synced")

    def __init__(self, path_prefix: str, base_offset: int, open_files: OpenFiles) -> None:
        self.base_offset = base_offset
        self.file = open_files.file(path_prefix + self.SUFFIX)
        self.is_synced = True
        self._files = open_files.files
        self._count = _NOT_LOADED
        self._last_entry: tuple[int, int] | None = None  # as stored

    def create(self) -> None:
        """An empty file, whatever was there before."""
        self.file.close()
        self._files.create(self.file.path)
        self._count, self._last_entry = 0, None
        self.is_synced = False

    def __len__(self) -> int:
        if self._count == _NOT_LOADED:
            self._load()
        return self._count

    def _load(self) -> None:
        with self.file as descriptor:
            count = self._files.size(descriptor) // self.LAYOUT.size
            last_entry = self._read_entry(descriptor, count - 1) if count else None
        self._count, self._last_entry = count, last_entry

    def is_sane(self) -> bool:
        """Whole entries only, and the last one lies behind the segment's first record.

        A file that its writer had preallocated and never cut (an unclean stop of Apache Kafka)
        ends in zeros and is not.
        """
        with self.file as descriptor:
            size = self._files.size(descriptor)
        return size % self.LAYOUT.size == 0 and (len(self) == 0 or self._is_last_entry_sane())

    def _is_last_entry_sane(self) -> bool:
        raise NotImplementedError

    def append_entry(self, first: int, second: int) -> None:
        """Write one entry behind the others; on an error there is none."""
        count = len(self)
        with self.file as descriptor:
            position = count * self.LAYOUT.size
            self._files.write_at(descriptor, self.LAYOUT.pack(first, second), position)
        self._last_entry = (first, second)
        self._count = count + 1
        self.is_synced = False

    def cut_to_count(self, count: int) -> None:
        """Forget all entries from number `count` on."""
        with self.file as descriptor:
            last_entry = self._read_entry(descriptor, count - 1) if count else None
            self._count, self._last_entry = count, last_entry
            self.is_synced = False
            self._files.truncate(descriptor, count * self.LAYOUT.size)

    def sync(self) -> None:
        """Make all entries durable. May run in a thread beside the writer."""
        if self.is_synced:
            return
        self.is_synced = True  # before: an entry that arrives meanwhile makes it false again
        try:
            with self.file as descriptor:
                self._files.sync(descriptor)
        except OSError:
            self.is_synced = False
            raise

    def _floor(self, target: int, field: int, read: ReadAt | None = None) -> tuple[int, int] | None:
        """The last stored entry whose `field` is not above `target`."""
        count = len(self)
        if count == 0:
            return None
        last_entry = self._last_entry
        if last_entry is not None and last_entry[field] <= target:
            return last_entry  # reading near the end needs no search
        with self.file as descriptor:

            def field_at(number: int) -> int:
                return self._read_entry(descriptor, number, read)[field]

            number = bisect_right(range(count), target, key=field_at) - 1
            return self._read_entry(descriptor, number, read) if number >= 0 else None

    def _read_entry(
        self, descriptor: int, number: int, read: ReadAt | None = None
    ) -> tuple[int, int]:
        layout = self.LAYOUT
        data = (read or self._files.read_at)(descriptor, layout.size, number * layout.size)
        first, second = layout.unpack(data)
        return first, second
