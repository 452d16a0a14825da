"""The only access to the file system: every call of the storage layer goes through `Files`.

Tests pass a subclass whose calls fail, or that loses data that was never synced. This module knows
nothing of segments, and no other module of the layer may call `os` on a path or descriptor. All
methods raise `OSError`. Thread-safe.
"""

# A `Path` for every call would cost more than the call.
# ruff: noqa: PTH103, PTH105, PTH106, PTH108, PTH110, PTH116, PTH120, PTH208
from __future__ import annotations

import ctypes
import errno
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from drumlin.records.batch.batch import Buffer
from drumlin.records.batch.varint import INT64_MAX

#: The device is full: it may have space again, and its contents are intact. Never raised by a sync.
DEVICE_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
#: The process or the machine is short of descriptors: no failure of the device.
NO_DESCRIPTOR: Final = frozenset({errno.EMFILE, errno.ENFILE})

#: The file itself is an obstacle, or unusable: only its log fails, not the device.
OF_ONE_FILE: Final = frozenset(
    {errno.EISDIR, errno.ENOTDIR, errno.EACCES, errno.EPERM, errno.ELOOP, errno.ENXIO}
)

#: A way to read bytes: `Files.read_at`, or `Files.read_resident_at` if it must not block.
ReadAt = Callable[[int, int, int], bytes | bytearray]  # descriptor, length, position

_FALLOC_FL_KEEP_SIZE: Final = 1
TEMPORARY_SUFFIX: Final = ".tmp"

_fallocate = ctypes.CDLL(None, use_errno=True).fallocate
_fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]


class Files:
    """Operations on files and folders, each a point of failure for tests."""

    def __init__(self) -> None:
        # Open files of file systems in memory (tmpfs), which never block on reading.
        self._always_resident: set[int] = set()

    # -- one open file -----------------------------------------------------------------

    def open(self, path: str, *, create: bool = False) -> int:
        """Open a file for reading and writing."""
        return _open_regular(path, os.O_RDWR | (os.O_CREAT if create else 0))

    def create(self, path: str) -> None:
        """Create an empty file; an existing one is emptied."""
        os.close(_open_regular(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC))

    def close(self, descriptor: int) -> None:
        """Close a descriptor; may fail like `sync`, as network file systems write back here."""
        self._always_resident.discard(descriptor)
        with _as_lost("close"):
            os.close(descriptor)

    def size(self, descriptor: int) -> int:
        return os.fstat(descriptor).st_size

    def modified_ms(self, descriptor: int) -> int:
        return os.fstat(descriptor).st_mtime_ns // 1_000_000

    def set_modified_ms(self, descriptor: int, modified_ms: int) -> None:
        os.utime(descriptor, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def read_at(self, descriptor: int, length: int, position: int) -> bytes:
        """Read `length` bytes, or fewer at the end of the file."""
        data = os.pread(descriptor, length, position)
        while len(data) < length:
            rest = os.pread(descriptor, length - len(data), position + len(data))
            if not rest:
                break
            data += rest
        return data

    def read_into(self, descriptor: int, buffer: memoryview, position: int) -> int:
        """Fill `buffer` from the file; returns the size read, smaller only at the end of file."""
        count = 0
        while count < len(buffer):
            step = os.preadv(descriptor, (buffer[count:],), position + count)
            if step == 0:
                break
            count += step
        return count

    def read_resident_at(self, descriptor: int, length: int, position: int) -> bytes | bytearray:
        """Read like `read_at`, but only from memory.

        Raises:
            BlockingIOError: the device would have to be read.
        """
        if descriptor in self._always_resident:
            return self.read_at(descriptor, length, position)
        data = bytearray(length)
        try:
            count = os.preadv(descriptor, (data,), position, os.RWF_NOWAIT)
        except OSError as error:
            # Raised by file systems without a device to wait for.
            if error.errno != errno.EOPNOTSUPP:
                raise
            self._always_resident.add(descriptor)
            return self.read_at(descriptor, length, position)
        if count < length:
            if position + count < self.size(descriptor):
                raise BlockingIOError(errno.EAGAIN, "not in memory")
            del data[count:]
        return data

    def is_resident_at(self, descriptor: int, position: int) -> bool:
        """Whether the byte at `position` can be read without the device."""
        if descriptor in self._always_resident:
            return True
        try:
            self.read_resident_at(descriptor, 1, position)
        except OSError:  # not in memory, or a failure, which the read itself will raise
            return False
        return True

    def write_at(self, descriptor: int, data: Buffer, position: int) -> None:
        """Write all of `data`; after an error any part of it may have been written."""
        written = os.pwrite(descriptor, data, position)
        while written < len(data):
            written += os.pwrite(descriptor, memoryview(data)[written:], position + written)

    def truncate(self, descriptor: int, size: int) -> None:
        """Cut to `size`; reserved blocks beyond it are released."""
        os.ftruncate(descriptor, size)

    def set_aside(self, descriptor: int, position: int, length: int) -> None:
        """Reserve disk blocks without changing the file's size: a crash leaves no zero tail."""
        if _fallocate(descriptor, _FALLOC_FL_KEEP_SIZE, position, length) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))

    def sync(self, descriptor: int) -> None:
        """Make the file's contents and size durable.

        Raises:
            OSError: EIO, whatever the cause: written data may be lost. See `losses_allowed` for
                files where that does not matter.
        """
        with _as_lost("fdatasync"):
            self.fdatasync(descriptor)

    def fdatasync(self, descriptor: int) -> None:
        os.fdatasync(descriptor)

    def forget_cached(self, descriptor: int) -> None:
        """Drop the file from the page cache, so that the next read comes from the device."""
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)

    # -- names -------------------------------------------------------------------------

    def sync_directory(self, path: str) -> None:
        """Make the names in a folder durable; fails like `sync`."""
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with _as_lost("fsync"):
                self.fsync(descriptor)
        finally:
            os.close(descriptor)

    def fsync(self, descriptor: int) -> None:
        os.fsync(descriptor)

    def link_open(self, descriptor: int, target: str) -> None:
        """Give an open file another name. FileNotFoundError if it has none any more."""
        # With a descriptor, which an absolute path does not use, Python makes the call that can
        # follow links.
        os.link(f"/proc/self/fd/{descriptor}", target, src_dir_fd=descriptor, follow_symlinks=True)

    def link(self, source: str, target: str) -> None:
        """Give a file another name, on the same device."""
        os.link(source, target, follow_symlinks=False)

    def rename(self, source: str, target: str) -> None:
        os.replace(source, target)

    def remove(self, path: str) -> None:
        """Remove a file, if it exists."""
        try:
            os.unlink(path)
        except FileNotFoundError:
            return

    def size_of(self, path: str) -> int:
        found = os.stat(path)
        _check_regular(found.st_mode, path)
        return found.st_size

    def free_bytes(self, path: str) -> int:
        """The free space on the device of a folder, if known; a quota may allow less."""
        found = os.statvfs(path)
        if not found.f_blocks:
            return INT64_MAX  # the file system does not support it
        return found.f_bavail * found.f_frsize

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def room(self, path: str) -> tuple[int, int]:
        """The free space for us on the device of a folder, and the total space."""
        found = os.statvfs(path)
        if not found.f_blocks:
            return INT64_MAX, INT64_MAX  # as above
        return found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize

    def make_directory(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def list_directory(self, path: str) -> Sequence[str]:
        return os.listdir(path)

    def remove_directory(self, path: str) -> None:
        """Remove a folder and the files in it; partition folders have no folders inside."""
        try:
            names = self.list_directory(path)
        except FileNotFoundError:
            return
        for name in names:
            self.remove(f"{path}/{name}")
        self.remove_empty_directory(path)

    def remove_empty_directory(self, path: str) -> None:
        """Remove an empty folder; unlike `remove_directory`, this needs no descriptor."""
        os.rmdir(path)

    # -- whole small files -------------------------------------------------------------

    def read_file(self, path: str) -> bytes:
        descriptor = _open_regular(path, os.O_RDONLY)
        try:
            return self.read_at(descriptor, self.size(descriptor), 0)
        finally:
            os.close(descriptor)

    def write_file(self, path: str, content: bytes) -> None:
        """Write a file with `content`, not durably."""
        with losses_allowed():
            descriptor = self.open(path, create=True)
            try:
                self.truncate(descriptor, 0)
                self.write_at(descriptor, content, 0)
            finally:
                self.close(descriptor)

    def sync_file(self, path: str) -> None:
        descriptor = self.open(path)
        try:
            self.sync(descriptor)
        finally:
            self.close(descriptor)

    def replace_file(self, path: str, content: bytes) -> None:
        """Replace a file durably and atomically: a crash leaves the old content or the new."""
        temporary = path + TEMPORARY_SUFFIX
        self.write_file(temporary, content)
        with losses_allowed():
            self.sync_file(temporary)
        self.rename(temporary, path)
        self.sync_directory(os.path.dirname(path))


@contextmanager
def losses_allowed() -> Iterator[None]:
    """Let sync and close raise ENOSPC, for files that nothing relies on yet.

    Their data is lost then, which does not matter: it is as if the write had failed.
    """
    try:
        yield
    except OSError as error:
        reason = out_of_space(error)
        if reason is None or reason is error:
            raise
        raise reason from None


def out_of_space(error: OSError) -> OSError | None:
    """The error of a full device, found by a write or later; None if it is another error."""
    found: BaseException | None = error
    while isinstance(found, OSError):
        if found.errno in DEVICE_FULL:
            return found
        found = found.__cause__
    return None


@contextmanager
def _as_lost(call: str) -> Iterator[None]:
    """Raise EIO for an ENOSPC that came too late: the device has lost data that it had accepted.

    If a write or an open raises ENOSPC, or EACCES, nothing was written. If a sync raises it, pages
    of an earlier write are affected. The kernel reports that once and drops the pages: the next
    sync succeeds without them.
    """
    try:
        yield
    except OSError as error:
        message = f"{os.strerror(errno.EIO)}, as {call} says: {error.strerror}"
        raise OSError(errno.EIO, message) from error


def _open_regular(path: str, flags: int) -> int:
    """Open an ordinary file; anything else, such as a pipe, is refused without blocking."""
    descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC, 0o644)
    try:
        _check_regular(os.fstat(descriptor).st_mode, path)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _check_regular(mode: int, path: str) -> None:
    if not stat.S_ISREG(mode):
        code = errno.EISDIR if stat.S_ISDIR(mode) else errno.ENXIO
        raise OSError(code, "Not an ordinary file", path)
