"""A file of entries of one size, appended in order: what the sparse indexes have in common.

Entries are written with `pwrite` and found with `pread`, not through a mapping: storing into a
mapped page of a full disk, or loading one from a failing disk, kills the process with SIGBUS.
So they are written in groups: the latest are kept in memory until there are enough of them, or
nothing more is appended (`write_out`). A crash loses them, just as a power failure loses what was
not synced.

The file holds entries only (nothing is preallocated), so an idle partition's indexes cost no
disk, and a file that was cut back to any earlier size is still a correct, sparser index.

A search reads blocks of entries. The last block read is kept: a consumer that reads the log in
order finds the next entries there.
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
_putting_in = threading.Lock()  # for all indexes: it is held for a moment only

Entry = tuple[int, int]


class IndexFile:
    """Entries of two integers, ascending in both; subclasses give them meaning."""

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
        self.count = _NOT_LOADED  # of entries, once `load` has run
        self._files = open_files.files
        self._sync_count = SyncCount()
        self._last_entry: Entry | None = None
        # The number of the first entry that is not in the file, and all entries from there on. A
        # thread that still holds an older pair finds in the file the entries written since.
        self._unwritten: tuple[int, bytes] = (0, b"")
        # One block at most. When entries are removed this becomes a new list, so that a thread
        # which still reads the old entries does not put them here.
        self._recent_block: list[Buffer] = []

    # -- what the file holds -----------------------------------------------------------

    def create(self) -> None:
        """An empty file, whatever was there before."""
        self.file.close()
        self._files.create(self.file.path)
        self.count, self._last_entry = 0, None
        self._unwritten = (0, b"")
        self._recent_block = []
        self._sync_count.note()

    def load(self, read: ReadAt | None = None) -> None:
        """Find the number of entries in the file, once. Impossible ones at its end are ignored.

        Any thread may call it. A change of the index loads it first, so the result of a thread that
        read the older file is dropped.
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
                self.count = count  # last: it shows other threads that the rest is set

    @property
    def size_bytes(self) -> int:
        """The size of all entries, those not yet written to the file included."""
        self.load()
        return self.count * self.LAYOUT.size

    def is_sound(self) -> bool:
        """Whether the file is nothing but entries.

        One whose writer had preallocated it and never came to cut it (an unclean stop of Apache
        Kafka) ends in zeros and is not.
        """
        self.load()
        with self.file as descriptor:
            return self._files.size(descriptor) == self._unwritten[0] * self.LAYOUT.size

    def _is_sane(self, entry: Entry) -> bool:
        """Whether an entry can be one, rather than zeros."""
        raise NotImplementedError

    # -- changing it -------------------------------------------------------------------

    def append_entry(self, entry: Entry) -> None:
        """Append one entry; after an error it is not there."""
        self._append(self.LAYOUT.pack(*entry), entry)

    def append_entries(self, entries: Sequence[Entry]) -> None:
        """Append some entries; after an error none of them is there."""
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
        """Write all entries to the file. Called by the thread that appends, or when none does."""
        first, unwritten = self._unwritten
        if unwritten:
            self._write(first, unwritten)
            self._unwritten = (self.count, b"")

    def cut_while(self, is_gone: Callable[[Entry], bool]) -> None:
        """Remove entries from the end for as long as `is_gone` says so."""
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
        """Make all entries durable, once nothing is appended any more. May run in a thread."""
        self.write_out()
        self._sync_count.sync(self.file.sync)

    # -- finding -----------------------------------------------------------------------

    def floor(self, target: int, field: int, read: ReadAt | None = None) -> Entry | None:
        """The last entry whose `field` is not above `target`."""
        self.load(read)
        recent = self._recent_block  # first: entries cut meanwhile stay out of a new list
        last_entry = self._last_entry
        if last_entry is None or last_entry[field] <= target:
            return last_entry  # reading near the end needs no search
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
        """`floor` among the first `count` entries, block by block; the last block read is kept.

        Offsets are spread fairly evenly, so the first guess is mostly right. Then it bisects.
        """
        size, found = self.LAYOUT.size, None
        low, high = 0, count  # all entries below `low` are up to the target, from `high` above
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
        """How many entries of a block are not above `target`."""
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
