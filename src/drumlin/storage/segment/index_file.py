"""An index file: entries of a fixed size, in ascending order. The base of the sparse indexes.

Entries are written by `pwrite` and found by `pread`, not through a mapping: writing to a mapped
page on a full disk, or reading one from a failing disk, kills the process with SIGBUS. So they are
written in groups: the latest are kept in memory until there are enough, or until the segment is
idle (`write_out`). A crash loses them, just as a power failure loses unsynced data.

The file is never preallocated, so an idle partition's indexes take no disk space, and any prefix of
a file is still a correct, sparser index.

A search reads blocks of entries. The last block is kept: a consumer that reads the log in order
finds the next entries in it.
"""

from __future__ import annotations

import struct
import threading
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from typing import ClassVar, Final

from drumlin.records.batch.batch import Buffer
from drumlin.storage.files.files import ReadAt
from drumlin.storage.files.open_files import OpenFiles
from drumlin.storage.segment.sync_count import SyncCount

_NOT_LOADED: Final = -1
_BLOCK_ENTRIES: Final = 512
_WRITTEN_AT_ONCE: Final = 32
_putting_in = threading.Lock()  # shared by all indexes, as it is only held briefly

Entry = tuple[int, int]


class IndexFile:
    """An index with entries of two integers, ascending in both; subclasses define their meaning."""

    LAYOUT: ClassVar[struct.Struct]
    SUFFIX: ClassVar[str]

    __slots__ = (
        "_files",
        "_last_entry",
        "_recent_block",
        "_sync_count",
        "_unwritten",
        "base_offset",
        "count",
        "file",
    )

    def __init__(self, path_prefix: str, base_offset: int, open_files: OpenFiles) -> None:
        self.base_offset = base_offset
        self.file = open_files.file(path_prefix + self.SUFFIX)
        self.count = _NOT_LOADED  # the number of entries, after `load`
        self._files = open_files.files
        self._sync_count = SyncCount()
        self._last_entry: Entry | None = None
        # The number of the first entry that is not in the file, and all entries from there on. A
        # thread that still has an older pair finds the entries written since in the file.
        self._unwritten: tuple[int, bytes] = (0, b"")
        # At most one block. After a removal of entries this is a new list, so that a thread which
        # still reads the old entries does not put them here.
        self._recent_block: list[Buffer] = []

    # -- contents of the file ----------------------------------------------------------

    def create(self) -> None:
        """Create an empty file; an existing one is emptied."""
        self.file.close()
        self._files.create(self.file.path)
        self.count, self._last_entry = 0, None
        self._unwritten = (0, b"")
        self._recent_block = []
        self._sync_count.note()

    def load(self, read: ReadAt | None = None) -> None:
        """Find the number of entries in the file, once; impossible ones at its end are ignored.

        Thread-safe. A change of the index loads it first, so the result of a thread that has read
        an older file is dropped.
        """
        if self.count != _NOT_LOADED:
            return
        with self.file as descriptor:
            count = self._files.size(descriptor) // self.LAYOUT.size
            last_entry = self._read_entry(descriptor, count - 1, read) if count else None
            if last_entry is not None and not self._is_sane(last_entry):

                def is_broken(number: int) -> bool:
                    return not self._is_sane(self._read_entry(descriptor, number, read))

                count = bisect_left(range(count), True, key=is_broken)
                last_entry = self._read_entry(descriptor, count - 1, read) if count else None
        with _putting_in:
            if self.count == _NOT_LOADED:
                self._last_entry = last_entry
                self._unwritten = (count, b"")
                self.count = count  # last, as it shows other threads that the rest is set

    @property
    def size_bytes(self) -> int:
        """The size of all entries, including those not yet written to the file."""
        self.load()
        return self.count * self.LAYOUT.size

    def is_sound(self) -> bool:
        """Whether the file contains only valid entries.

        A file that Apache Kafka preallocated, and did not cut because of an unclean shutdown, ends
        in zeros, and is not sound.
        """
        self.load()
        with self.file as descriptor:
            return self._files.size(descriptor) == self._unwritten[0] * self.LAYOUT.size

    def _is_sane(self, entry: Entry) -> bool:
        """Whether an entry is possible, rather than zeros."""
        raise NotImplementedError

    # -- changes -----------------------------------------------------------------------

    def append_entry(self, entry: Entry) -> None:
        """Append an entry; after an error nothing has changed."""
        self._append(self.LAYOUT.pack(*entry), entry)

    def append_entries(self, entries: Sequence[Entry]) -> None:
        """Append entries; after an error nothing has changed."""
        if entries:
            self._append(b"".join(self.LAYOUT.pack(*entry) for entry in entries), entries[-1])

    def _append(self, packed: bytes, last_entry: Entry) -> None:
        if self.count == _NOT_LOADED:
            self.load()
        first, unwritten = self._unwritten
        unwritten += packed
        size = self.LAYOUT.size
        count = first + len(unwritten) // size
        if count - first >= _WRITTEN_AT_ONCE:
            self._write(first, unwritten)
            first, unwritten = count, b""
        self._unwritten = (first, unwritten)
        self._last_entry = last_entry
        self.count = count

    def _write(self, first: int, packed: bytes) -> None:
        with self.file as descriptor:
            self._files.write_at(descriptor, packed, first * self.LAYOUT.size)
        self._sync_count.note()

    def write_out(self) -> None:
        """Write all entries to the file. Only for the appending thread, if there is one."""
        first, unwritten = self._unwritten
        if unwritten:
            self._write(first, unwritten)
            self._unwritten = (self.count, b"")

    def cut_while(self, is_gone: Callable[[Entry], bool]) -> None:
        """Remove entries from the end for as long as `is_gone` is true."""
        self.load()
        first, unwritten = self._unwritten
        count, entry, size = self.count, self._last_entry, self.LAYOUT.size
        with self.file as descriptor:
            while entry is not None and is_gone(entry):
                count -= 1
                if count > first:
                    entry = self._entry_in(unwritten, count - 1 - first)
                else:
                    entry = self._read_entry(descriptor, count - 1) if count else None
            if count < self.count:
                self._unwritten = (min(first, count), unwritten[: max(0, count - first) * size])
                self.count, self._last_entry = count, entry
                self._recent_block = []
            if count < first:
                self._files.truncate(descriptor, count * size)
                self._sync_count.note()

    def sync(self) -> None:
        """Make all entries of a sealed segment durable. May run in any thread."""
        self.write_out()
        self._sync_count.sync(self.file.sync)

    # -- look-ups ----------------------------------------------------------------------

    def floor(self, target: int, field: int, read: ReadAt | None = None) -> Entry | None:
        """The last entry whose `field` is at most `target`."""
        self.load(read)
        recent = self._recent_block  # read first, so that entries cut meanwhile are not kept
        last_entry = self._last_entry
        if last_entry is None or last_entry[field] <= target:
            return last_entry  # no search needed near the end
        first, unwritten = self._unwritten
        number = self._count_up_to(target, field, unwritten)
        if number:
            return self._entry_in(unwritten, number - 1)
        for block in recent:
            number = self._count_up_to(target, field, block)
            if 0 < number < len(block) // self.LAYOUT.size:
                return self._entry_in(block, number - 1)
        with self.file as descriptor:
            read = read or self._files.read_at
            return self._search(descriptor, first, target, field, read, recent)

    def _search(
        self,
        descriptor: int,
        count: int,
        target: int,
        field: int,
        read: ReadAt,
        recent: list[Buffer],
    ) -> Entry | None:
        """Search the first `count` entries for `floor`, block by block; the last block is kept.

        The first guess is by interpolation, which is mostly right, as offsets are spread evenly;
        later guesses are by bisection.
        """
        size, found = self.LAYOUT.size, None
        low, high = 0, count  # entries before `low` are at most `target`, those from `high` above
        assert self._last_entry is not None
        guess = high * target // max(1, self._last_entry[field])
        while low < high:
            first = max(low, min(guess - _BLOCK_ENTRIES // 2, high - _BLOCK_ENTRIES))
            block = read(descriptor, min(_BLOCK_ENTRIES, high - first) * size, first * size)
            count = len(block) // size
            number = self._count_up_to(target, field, block)
            if number:
                found = self._entry_in(block, number - 1)
            if 0 < number < count or not count:
                recent[:] = [block]
                break
            low, high = (low, first) if number == 0 else (first + count, high)
            guess = (low + high) // 2
        return found

    def _count_up_to(self, target: int, field: int, block: Buffer) -> int:
        """The number of entries of a block that are at most `target`."""
        unpack, size = self.LAYOUT.unpack_from, self.LAYOUT.size

        def field_at(number: int) -> int:
            value: int = unpack(block, number * size)[field]
            return value

        return bisect_right(range(len(block) // size), target, key=field_at)

    def _entry_in(self, block: Buffer, number: int) -> Entry:
        first, second = self.LAYOUT.unpack_from(block, number * self.LAYOUT.size)
        return first, second

    @property
    def last_entry(self) -> Entry | None:
        self.load()
        return self._last_entry

    def _read_entry(self, descriptor: int, number: int, read: ReadAt | None = None) -> Entry:
        size, read = self.LAYOUT.size, read or self._files.read_at
        return self._entry_in(read(descriptor, size, number * size), 0)
