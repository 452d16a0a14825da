"""The index of aborted transactions `%020d.txnindex`, which READ_COMMITTED consumers skip.

An entry has 34 bytes: version (0), producer id, first and last offset of the transaction, and the
last stable offset when it ended. A segment without aborted transactions has no file.
"""

from __future__ import annotations

import contextlib
import errno
import struct
import threading
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from drumlin.storage.files.open_files import OpenFiles
from drumlin.storage.segment.sync_count import SyncCount

_LAYOUT: Final = struct.Struct(">hqqqq")
_VERSION: Final = 0
_putting_in = threading.Lock()  # shared by all indexes, as it is only held briefly


class AbortedTransaction(NamedTuple):
    """A transaction whose records, from `first_offset` to `last_offset`, must be skipped."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def encode_transactions(transactions: Iterable[AbortedTransaction]) -> bytes:
    return b"".join(_LAYOUT.pack(_VERSION, *each) for each in transactions)


class TransactionIndex:
    """The aborted transactions, in the order of their ends, and so of their last stable offsets.

    They are kept in memory in the format of the file from the first use on, as there may be very
    many. Any thread that may block can load them; of two concurrent loads the first one wins. A
    change loads them first. Readers in other threads take a reference to the bytes first: these
    grow in place, and are replaced when entries are removed.
    """

    SUFFIX: Final = ".txnindex"
    __slots__ = ("_files", "_packed", "_sync_count", "file")

    def __init__(self, path_prefix: str, open_files: OpenFiles) -> None:
        self.file = open_files.file(path_prefix + self.SUFFIX)
        self._files = open_files.files
        self._sync_count = SyncCount()
        self._packed: bytearray | None = None  # None: not read yet

    def entries(self) -> tuple[AbortedTransaction, ...]:
        packed = bytes(self._loaded())
        return tuple(AbortedTransaction._make(each[1:]) for each in _LAYOUT.iter_unpack(packed))

    def know(self, entries: tuple[AbortedTransaction, ...]) -> None:
        """Set the entries without reading the file, which the caller has written or not created."""
        self._packed = bytearray(encode_transactions(entries))

    @property
    def is_empty(self) -> bool:
        """Whether the index is known to be empty."""
        return self._packed is not None and not self._packed

    def _loaded(self, may_block: bool = True) -> bytearray:
        packed = self._packed
        return self._load(may_block) if packed is None else packed

    def load(self) -> None:
        """Read the file, once. Blocks."""
        self._loaded()

    def _load(self, may_block: bool) -> bytearray:
        if not may_block:
            raise BlockingIOError(errno.EAGAIN, "not read yet", self.file.path)
        read = self._read()
        with _putting_in:
            if self._packed is None:
                self._packed = read
            return self._packed

    def _read(self) -> bytearray:
        try:
            with self.file as descriptor:
                data = self._files.read_at(descriptor, self._files.size(descriptor), 0)
        except FileNotFoundError:
            # There is no file with this name, and the name can't change while it is being opened.
            if self.file.is_discarded:
                raise  # its contents are unknown
            return bytearray()
        return bytearray(data[: len(data) // _LAYOUT.size * _LAYOUT.size])

    def append(self, transaction: AbortedTransaction) -> None:
        packed = self._loaded()
        if not packed:
            self._files.create(self.file.path)
        with self.file as descriptor:
            entry = encode_transactions([transaction])
            self._files.write_at(descriptor, entry, len(packed))
        packed += entry
        self._sync_count.note()

    # With `may_block=False` these raise BlockingIOError if the file has to be read first.

    def ended_from(self, offset: int, may_block: bool) -> Iterator[AbortedTransaction]:
        """The aborted transactions that ended at or after `offset`."""
        packed = self._loaded(may_block)
        for number in range(_first_ended_from(packed, offset), _count(packed)):
            yield _entry(packed, number)

    def has_any_from(self, offset: int, may_block: bool) -> bool:
        """Whether an aborted transaction ended at or after `offset`."""
        packed = self._loaded(may_block)
        return bool(packed) and _last(packed).last_offset >= offset

    def truncate_to(self, offset: int) -> None:
        """Remove the transactions that ended at or after `offset`."""
        packed = self._loaded()
        size = _first_ended_from(packed, offset) * _LAYOUT.size
        if size < len(packed):
            with self.file as descriptor:
                self._files.truncate(descriptor, size)
            self._packed = packed[:size]
            self._sync_count.note()

    def forget_last(self, transaction: AbortedTransaction) -> None:
        """Remove the last entry, whose marker could not be appended."""
        packed = self._packed
        if packed and _last(packed) == transaction:
            self._packed = packed[: -_LAYOUT.size]
            with contextlib.suppress(OSError), self.file as descriptor:
                self._files.truncate(descriptor, len(self._packed))
                self._sync_count.note()

    def clear(self) -> None:
        """Remove the file and all entries."""
        self.file.close()
        self._files.remove(self.file.path)
        self._packed = bytearray()

    def sync(self) -> None:
        """Make all entries durable. May run in a thread beside the writer."""
        self._sync_count.sync(self.file.sync)


def _count(packed: bytearray) -> int:
    return len(packed) // _LAYOUT.size


def _entry(packed: bytearray, number: int) -> AbortedTransaction:
    return AbortedTransaction._make(_LAYOUT.unpack_from(packed, number * _LAYOUT.size)[1:])


def _last(packed: bytearray) -> AbortedTransaction:
    return _entry(packed, _count(packed) - 1)


def _first_ended_from(packed: bytearray, offset: int) -> int:
    """The number of transactions that ended before `offset`."""

    def last_offset_of(number: int) -> int:
        return _entry(packed, number).last_offset

    return bisect_left(range(_count(packed)), offset, key=last_offset_of)
