"""The index of aborted transactions `%020d.txnindex`: what a READ_COMMITTED reader must skip.

34 bytes an entry: version (0), producer id, first and last offset of the transaction, and the
last stable offset when it ended. A segment in which no transaction was aborted has no file.
"""

from __future__ import annotations

import contextlib
import itertools
import struct
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import Final, NamedTuple

from drumlin.storage.open_files import OpenFiles

_LAYOUT: Final = struct.Struct(">hqqqq")
_VERSION: Final = 0


class AbortedTransaction(NamedTuple):
    """A transaction whose records, from `first_offset` to `last_offset`, count for nothing."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def encode_transactions(transactions: Iterable[AbortedTransaction]) -> bytes:
    return b"".join(_LAYOUT.pack(_VERSION, *each) for each in transactions)


class TransactionIndex:
    """Aborted transactions in the order of their end."""

    SUFFIX: Final = ".txnindex"
    __slots__ = ("_entries", "_files", "file", "is_synced")

    def __init__(self, path_prefix: str, open_files: OpenFiles) -> None:
        self.file = open_files.file(path_prefix + self.SUFFIX)
        self.is_synced = True
        self._files = open_files.files
        self._entries: tuple[AbortedTransaction, ...] | None = None  # None: not read yet

    def entries(self) -> tuple[AbortedTransaction, ...]:
        if self._entries is None:
            self._entries = self._read() if self._files.exists(self.file.path) else ()
        return self._entries

    def know(self, entries: tuple[AbortedTransaction, ...]) -> None:
        """What is in the file, by whoever wrote it."""
        self._entries = entries

    def _read(self) -> tuple[AbortedTransaction, ...]:
        data = self._files.read_file(self.file.path)
        whole = len(data) // _LAYOUT.size * _LAYOUT.size
        return tuple(
            AbortedTransaction._make(fields[1:]) for fields in _LAYOUT.iter_unpack(data[:whole])
        )

    def append(self, transaction: AbortedTransaction) -> None:
        entries = self.entries()
        if not entries:
            self._files.create(self.file.path)
        with self.file as descriptor:
            packed = encode_transactions([transaction])
            self._files.write_at(descriptor, packed, len(entries) * _LAYOUT.size)
        self._entries = (*entries, transaction)
        self.is_synced = False

    def overlapping(self, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """Those with an offset in the range; `end_offset` is exclusive."""
        found = []
        for entry in self._ended_from(start_offset):
            if entry.first_offset < end_offset:
                found.append(entry)
            if entry.last_stable_offset >= end_offset:
                break  # whatever ends later begins later
        return found

    def is_complete_up_to(self, end_offset: int) -> bool:
        """Whether no transaction below `end_offset` can have ended behind this segment."""
        return any(entry.last_stable_offset >= end_offset for entry in self.entries())

    def has_any_from(self, offset: int) -> bool:
        """Whether a transaction ended at or behind `offset`."""
        entries = self.entries()
        return bool(entries) and entries[-1].last_offset >= offset

    def _ended_from(self, offset: int) -> Iterator[AbortedTransaction]:
        entries = self.entries()
        first = bisect_left(entries, offset, key=attrgetter("last_offset"))
        return itertools.islice(entries, first, None)

    def truncate_to(self, offset: int) -> None:
        """Forget transactions that ended at or behind `offset`."""
        entries = self.entries()
        kept = tuple(entry for entry in entries if entry.last_offset < offset)
        if len(kept) < len(entries):
            with self.file as descriptor:
                self._files.truncate(descriptor, len(kept) * _LAYOUT.size)
            self._entries = kept
            self.is_synced = False

    def forget_last(self, transaction: AbortedTransaction) -> None:
        """Its marker did not get into the log."""
        entries = self._entries
        if entries and entries[-1] == transaction:
            self._entries = entries[:-1]
            with contextlib.suppress(OSError), self.file as descriptor:
                self._files.truncate(descriptor, len(self._entries) * _LAYOUT.size)

    def clear(self) -> None:
        """Remove the file: to be filled anew."""
        self.file.close()
        self._files.remove(self.file.path)
        self._entries = ()

    def sync(self) -> None:
        """Make all entries durable. May run in a thread beside the writer."""
        if self.is_synced:
            return
        self.is_synced = True
        try:
            with self.file as descriptor:
                self._files.sync(descriptor)
        except OSError:
            self.is_synced = False
            raise
