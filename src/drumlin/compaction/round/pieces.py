"""Reading a segment's file in pieces of a megabyte, into one buffer that is reused.

Every piece is counted by the throttle. Before each one the cleaning can be stopped.
"""

from __future__ import annotations

import contextlib
import mmap
import threading
from collections.abc import Iterator
from typing import Final

from drumlin.compaction.failures import CleaningFailed, CleaningStopped, SegmentGone
from drumlin.compaction.throttle import Throttle
from drumlin.storage.files.files import Files
from drumlin.storage.segment.segment import Segment

#: Small enough for a processor's cache, and for a smooth throttle.
_PIECE_BYTES: Final = 1 << 20


class Piece:
    """Bytes of a file; the consumer sets how many it has `used`."""

    __slots__ = ("_path", "_position", "used", "view")

    def __init__(self, view: memoryview, path: str, position: int) -> None:
        self.view = view
        self.used = 0
        self._path = path
        self._position = position

    @property
    def where(self) -> str:
        """File and position after the used bytes, for messages."""
        return f"{self._path}, position {self._position + self.used}"


class PieceReader:
    """One cleaner's buffer, and how it is filled."""

    def __init__(self, files: Files, throttle: Throttle, stopping: threading.Event) -> None:
        self._files = files
        self._throttle = throttle
        self._stopping = stopping
        self._buffer = mmap.mmap(-1, _PIECE_BYTES)

    def pieces(self, segment: Segment) -> Iterator[Piece]:
        """Pieces of a sealed segment, each starting where the use of the one before ended.

        At least one batch of a piece must be used; if none is whole in it, the piece is read again
        with more bytes.

        Raises:
            CleaningFailed: the file ends within a batch.
            CleaningStopped: the pool stops.
            SegmentGone: it was removed meanwhile.
            OSError: it can't be read.
        """
        position, end = 0, segment.size
        with segment.log_file as descriptor:
            while position < end:
                if self._stopping.is_set():
                    raise CleaningStopped(segment.log_file.path)
                if segment.is_deleted:
                    raise SegmentGone(segment.log_file.path)
                size = min(len(self._buffer), end - position)
                path = segment.log_file.path
                piece = Piece(memoryview(self._buffer)[:size], path, position)
                count = self._files.read_into(descriptor, piece.view, position)
                if count < size:
                    raise CleaningFailed(
                        f"{segment.log_file.path} ends at {position + count}, not at {end}"
                    )
                self._throttle.spend(size)
                yield piece
                piece.view.release()
                if piece.used:
                    position += piece.used
                elif size == end - position:
                    raise CleaningFailed(
                        f"{segment.log_file.path}, position {position}: the last batch is cut off"
                    )
                else:
                    self._grow()

    def _grow(self) -> None:
        size = 2 * len(self._buffer)
        self.close()
        self._buffer = mmap.mmap(-1, size)

    def close(self) -> None:
        # An exception under way may hold slices of it; the memory is freed with that.
        with contextlib.suppress(BufferError):
            self._buffer.close()
