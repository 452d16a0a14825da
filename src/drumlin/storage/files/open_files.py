"""Files that are opened and closed as needed, within a budget of descriptors.

A broker has more files than a process may keep open. A `LogFile` opens when it is used, stays open
within the budget, and is closed when another file needs the descriptor and no lease is held.
Thread-safe:

    with log_file as descriptor:
        files.write_at(descriptor, data, position)

Inside the `with` (a lease) the descriptor stays valid, even if the file is deleted meanwhile.
"""

from __future__ import annotations

import errno
import logging
import os
import resource
import threading
from collections import OrderedDict, deque
from collections.abc import Iterable
from typing import Final

from drumlin.storage.files.files import NO_DESCRIPTOR, Files

_logger = logging.getLogger(__name__)

_CLOSED: Final = -1
#: The other descriptors of the process are for connections.
_SHARE_OF_DESCRIPTORS: Final = 0.6
#: The number of recently used files that are spared before one of them is closed.
_SPARED_MAX: Final = 64


def default_budget() -> int:
    """The number of log files that may be open under the process's `ulimit -n`."""
    soft_limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft_limit == resource.RLIM_INFINITY:
        return 1 << 20
    return max(16, int(soft_limit * _SHARE_OF_DESCRIPTORS))


class LogFile:
    """A file by its name, with a descriptor while it is open."""

    __slots__ = (
        "_descriptor",
        "_is_discarded",
        "_leases",
        "_loss",
        "_open_files",
        "path",
        "was_used",
    )

    def __init__(self, path: str, open_files: OpenFiles) -> None:
        self.path = path
        self.was_used = False  # since the last search for files to close
        self._open_files = open_files
        self._descriptor = _CLOSED
        self._is_discarded = False
        self._loss: OSError | None = None  # a failure of close, for the next sync
        # One entry per user. A list because append and pop are atomic between threads.
        self._leases: list[None] = []

    def acquire(self) -> int:
        """Begin a lease: the descriptor stays valid until `release`."""
        # Add the lease first, then read the descriptor: `take_descriptor` does it in the opposite
        # order, so one of the two always sees the other.
        self._leases.append(None)
        self.was_used = True
        descriptor = self._descriptor
        if descriptor >= 0:
            return descriptor
        try:
            return self._open_files.open(self)
        except BaseException:
            self._leases.pop()
            raise

    def release(self) -> None:
        """End a lease. May be called by a finalizer, at any point of a thread."""
        self._leases.pop()
        if self._is_discarded:
            self._open_files.close_soon(self)

    __enter__ = acquire

    def __exit__(self, *_: object) -> None:
        self._leases.pop()  # as in `release`, without the call
        if self._is_discarded:
            self._open_files.close_soon(self)

    @property
    def is_discarded(self) -> bool:
        return self._is_discarded

    @property
    def is_open(self) -> bool:
        return self._descriptor >= 0

    def sync(self) -> None:
        """Make everything written so far durable. Blocks."""
        with self as descriptor:
            self._open_files.files.sync(descriptor)
            if self._loss is not None:  # kept for good: the log must be loaded again
                raise OSError(*self._loss.args) from self._loss

    def close(self) -> None:
        """Close the file if no lease is held; the next use opens it again."""
        self._open_files.close(self)

    def discard(self) -> None:
        """Close the file for good as soon as the last lease ends: it will be deleted.

        It is never opened again, as its name may belong to another file by then.
        """
        self._is_discarded = True
        if self._descriptor >= 0:  # a thread that is opening it holds a lease, and will close it
            self._open_files.close(self)

    def rename(self, path: str) -> None:
        """Rename the file, so that a later open does not find another file under the old name."""
        self._open_files.rename(self, path)

    def open_descriptor(self, files: Files) -> int:
        """The descriptor, opened if necessary. Called by `OpenFiles` under its lock."""
        if self._descriptor < 0:
            if self._is_discarded:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.path)
            self._descriptor = files.open(self.path)
        return self._descriptor

    def note_loss(self, loss: OSError) -> None:
        """Store a failure of close, so that the next `sync` raises it."""
        self._loss = loss

    def take_descriptor(self) -> int:
        """Take the descriptor away unless a lease is held. Called under the same lock."""
        descriptor, self._descriptor = self._descriptor, _CLOSED
        if self._leases:
            self._descriptor = descriptor
            return _CLOSED
        return descriptor


class OpenFiles:
    """The budget: when it is used up, the least recently used files are closed."""

    def __init__(self, files: Files, budget: int | None = None) -> None:
        self.files = files
        self.budget = default_budget() if budget is None else budget
        # Not a dict, which walks over all removed entries to find its first one.
        self._open: OrderedDict[LogFile, None] = OrderedDict()
        self._lock = threading.Lock()
        self._to_close: deque[LogFile] = deque()
        self._has_warned = False

    @property
    def open_count(self) -> int:
        return len(self._open)

    def file(self, path: str) -> LogFile:
        return LogFile(path, self)

    def open(self, file: LogFile) -> int:
        """Open a file for a thread that already holds a lease."""
        try:
            return self._open_file(file)
        finally:
            self._close_pending()

    def _open_file(self, file: LogFile) -> int:
        with self._lock:
            if len(self._open) >= self.budget:
                self._warn_once()
                self._close_unused(len(self._open) - self.budget + 1)
            try:
                descriptor = file.open_descriptor(self.files)
            except OSError as error:
                if error.errno not in NO_DESCRIPTOR:
                    raise
                self._warn_once()
                self._close_unused(max(8, len(self._open) // 4))
                descriptor = file.open_descriptor(self.files)
            self._open[file] = None
            file.was_used = False  # only a second use counts: a scan must not evict the others
            return descriptor

    def rename(self, file: LogFile, path: str) -> None:
        with self._lock:
            self.files.rename(file.path, path)
            file.path = path
        self._close_pending()

    def rename_folder(self, source: str, target: str, files: Iterable[LogFile]) -> None:
        """Rename a folder, and these files in it."""
        with self._lock:
            self.files.rename(source, target)
            for file in files:
                file.path = f"{target}/{file.path.rpartition('/')[2]}"
        self._close_pending()

    def close(self, file: LogFile) -> None:
        """Close a file, unless a lease is held: then the end of the lease calls this again."""
        with self._lock:
            self._close(file)
        self._close_pending()

    def close_soon(self, file: LogFile) -> None:
        """Close a file, now or later by the thread that holds the lock, which may be this one.

        Finalizers may run at any point: one that waited for the lock could wait for its own thread.
        """
        self._to_close.append(file)
        self._close_pending()

    def _close_pending(self) -> None:
        # If the lock is held, its holder calls this after releasing it, and sees the file.
        while self._to_close and self._lock.acquire(blocking=False):
            try:
                while self._to_close:
                    self._close(self._to_close.popleft())
            finally:
                self._lock.release()

    def _close(self, file: LogFile) -> bool:
        descriptor = file.take_descriptor()
        if descriptor < 0:
            return False
        del self._open[file]
        try:
            self.files.close(descriptor)
        except OSError as error:  # the descriptor is closed nevertheless
            file.note_loss(error)
        return True

    def _close_unused(self, wanted: int) -> None:
        """Close files by the second-chance rule: a file used since the last search is spared once.

        Only a limited number is spared, as the thread that opens a file waits for it.
        """
        for looked_at in range(2 * len(self._open)):
            if wanted <= 0 or not self._open:
                return
            file = next(iter(self._open))
            is_spared = file.was_used and looked_at < _SPARED_MAX
            if not is_spared and self._close(file):
                wanted -= 1
                continue
            file.was_used = False
            self._open.move_to_end(file)

    def _warn_once(self) -> None:
        if not self._has_warned:
            self._has_warned = True
            _logger.warning(
                "Only %d log files may be open at once: idle files are closed, and opened again "
                "when they are needed. A higher `ulimit -n` makes the broker faster.",
                self.budget,
            )
