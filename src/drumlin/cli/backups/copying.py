"""Copies of files into a new folder, with their digests. What is copied is durable.

A folder that could not be completed is removed again, also if a signal ends the command.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Final

from drumlin.cli.backups.contents import FileContents
from drumlin.cli.terminal.output import Failure

_PIECE_BYTES: Final = 1 << 20
#: Called with the number of bytes that were read.
Advance = Callable[[int], object]


class Shorter(Exception):
    """A file ends before the size that it is to have."""


@contextlib.contextmanager
def new_folder(path: Path) -> Iterator[None]:
    """A new private folder, or an empty one that is there; nothing is left if the block fails.

    Raises:
        Failure: the folder has something in it, or cannot be made.
    """
    was_there = path.exists()
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if any(path.iterdir()):
            raise Failure(f"{path} is not empty")
        path.chmod(0o700)
    except OSError as error:
        raise Failure(f"{path}: {error.strerror}") from error
    with _failing_at_signals():
        try:
            yield
        except BaseException:
            shutil.rmtree(path, ignore_errors=True)
            if was_there:
                path.mkdir(mode=0o700, exist_ok=True)
            raise


@contextlib.contextmanager
def _failing_at_signals() -> Iterator[None]:
    """Raise a failure in the block if a signal is to end the process; the next ones are ignored."""
    is_main = threading.current_thread() is threading.main_thread()
    numbers = [  # under nohup, SIGHUP stays ignored
        each
        for each in (signal.SIGTERM, signal.SIGHUP)
        if is_main and signal.getsignal(each) is signal.SIG_DFL
    ]

    def fail(number: int, _: object) -> None:
        for each in numbers:
            signal.signal(each, signal.SIG_IGN)
        raise Failure(f"ended by {signal.Signals(number).name}", 128 + number)

    for each in numbers:
        signal.signal(each, fail)
    try:
        yield
    finally:
        for each in numbers:
            signal.signal(each, signal.SIG_DFL)


def copy_file(source: Path, target: Path, size_bytes: int, advance: Advance) -> FileContents:
    """Copy the first bytes of a file, with permissions and times; the folder of the copy is made.

    Raises:
        Shorter: the file has fewer.
        OSError: it cannot be read, or the copy cannot be written.
    """
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with source.open("rb") as read, target.open("xb") as written:
        status = os.fstat(read.fileno())
        os.fchmod(written.fileno(), status.st_mode & 0o777)
        digest = _read(read, size_bytes, advance, written)
        written.flush()
        # Retention takes it for the time of records that have none.
        os.utime(written.fileno(), ns=(status.st_atime_ns, status.st_mtime_ns))
        os.fsync(written.fileno())
    return FileContents(size_bytes, digest)


def digest_of(path: Path, size_bytes: int, advance: Advance) -> str:
    """The digest of the first bytes of a file. Raises as `copy_file`."""
    with path.open("rb") as file:
        return _read(file, size_bytes, advance)


def _read(
    file: BinaryIO, size_bytes: int, advance: Advance, written: BinaryIO | None = None
) -> str:
    digest, left = hashlib.sha256(), size_bytes
    while left:
        piece = file.read(min(left, _PIECE_BYTES))
        if not piece:
            raise Shorter
        digest.update(piece)
        if written is not None:
            written.write(piece)
        left -= len(piece)
        advance(len(piece))
    return digest.hexdigest()


def sync_folders(path: Path) -> None:
    """Make the names in a folder, and in the folders in it, durable.

    Raises:
        OSError: a folder cannot be synced.
    """
    inner = [each for each in path.rglob("*") if each.is_dir()]
    for folder in (*inner, path, path.parent):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
