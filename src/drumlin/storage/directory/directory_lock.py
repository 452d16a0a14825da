"""The `.lock` file of a log dir: one server at a time, Apache Kafka included.

An "open file description" lock: it conflicts with Java's locks, with those of other processes, and
with those of another server in this process. It ends when the descriptor and all of its inherited
duplicates are closed.
"""

from __future__ import annotations

import fcntl
import os
import struct
from typing import Final

FILE_NAME: Final = ".lock"
_WHOLE_FILE: Final = struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)


class DirectoryLock:
    """The lock, held from `acquire` until `release` or the end of the process."""

    def __init__(self, path: str, descriptor: int | None = None) -> None:
        """Take over a `descriptor` that holds the lock already, if one is given."""
        self._path = f"{path}/{FILE_NAME}"
        self._descriptor = descriptor

    @property
    def descriptor(self) -> int | None:
        """The descriptor that holds the lock; None if it is not held."""
        return self._descriptor

    def acquire(self) -> bool:
        """Try to take the lock; returns whether it is held now.

        Raises:
            OSError: the file can't be opened.
        """
        if self._descriptor is not None:
            return True
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _WHOLE_FILE)
        except BlockingIOError:
            os.close(descriptor)
            return False
        self._descriptor = descriptor
        return True

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def is_locked(path: str) -> bool:
    """Whether a server is using a log dir. Changes nothing there.

    Raises:
        OSError: the lock file can't be read.
    """
    try:
        descriptor = os.open(f"{path}/{FILE_NAME}", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        found = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, _WHOLE_FILE)
        return bool(struct.unpack_from("h", found)[0] != fcntl.F_UNLCK)
    finally:
        os.close(descriptor)
