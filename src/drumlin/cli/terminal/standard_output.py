"""Standard output that writes everything, or raises: it never drops a part silently.

With PYTHONUNBUFFERED Python writes to the raw file, and ignores how many bytes were written; and
another process on the same pipe may have set it to O_NONBLOCK. All output of commands goes through
the stream of this module: it must never drop, repeat or reorder a byte.
"""

from __future__ import annotations

import io
import os
import select
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class _Waiting(io.FileIO):
    """A file whose writes wait for room, even if the file descriptor is non-blocking."""

    def write(self, data: ReadableBuffer, /) -> int:
        # None, which the library's type hints leave out, means that there is no room.
        while (count := super().write(data)) is None:
            room = select.poll()
            room.register(self.fileno(), select.POLLOUT)
            room.poll()
        return count


def whole(stream: io.TextIOWrapper | None) -> TextIO:
    """A stream to the file of `stream`, with a buffer that is always written completely."""
    if stream is None:  # the process began with it closed: another file may have the descriptor
        return Path(os.devnull).open("w", encoding="utf-8")
    stream.flush()
    return io.TextIOWrapper(
        io.BufferedWriter(_Waiting(stream.fileno(), "wb", closefd=False)),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering or stream.write_through,
    )


def discard() -> None:
    """Discard all further output, as nobody reads it, or it cannot be written."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def has_room() -> bool:
    """Whether something could be written without waiting."""
    room = select.poll()
    room.register(sys.stdout.fileno(), select.POLLOUT)
    return bool(room.poll(0))


def check_read() -> None:
    """Check, while there is nothing to print, that the reader still exists.

    Raises:
        BrokenPipeError: the reader is gone, as when `| head` has ended.
    """
    try:
        file = sys.stdout.fileno()
    except ValueError:  # not a file, as in a test
        return
    reader = select.poll()
    reader.register(file, 0)
    if reader.poll(0):
        raise BrokenPipeError
