"""Reads a segment's file in chunks of a megabyte, into a buffer that is reused.

The throttle counts every chunk. A cleaning can be stopped before each chunk.
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

#: The size of a chunk: small enough for a processor's cache, and for smooth throttling.
_CHUNK_BYTES: Final = 1 << 20


class SegmentChunk:
    """Bytes of a segment's file; the caller sets `used` to the number of bytes processed."""

    __slots__ = ("_path", "_position", "used", "view")

    def __init__(self, view: memoryview, path: str, position: int) -> None:
        self.view = view
        self.used = 0
        self._path = path
        self._position = position

    @property
    def where(self) -> str:
        """The file, and the position after the used bytes, for messages."""
        return f"{self._path}, position {self._position + self.used}"


class SegmentReader:
    """The reader of one cleaner, with its buffer."""

    def __init__(self, files: Files, throttle: Throttle, stopping: threading.Event) -> None:
        self._files = files
        self._throttle = throttle
        self._stopping = stopping
        self._buffer = mmap.mmap(-1, _CHUNK_BYTES)

    def chunks(self, segment: Segment) -> Iterator[SegmentChunk]:
        """Read a sealed segment; each chunk starts after the used bytes of the previous chunk.

        The caller must use at least one batch of each chunk, or nothing if the chunk contains no
        whole batch: then the chunk is read again, with more bytes.

        Raises:
            CleaningFailed: the file ends within a batch.
            CleaningStopped: the pool stops.
            SegmentGone: the segment was removed meanwhile.
            OSError: the file can't be read.
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
                chunk = SegmentChunk(memoryview(self._buffer)[:size], path, position)
                count = self._files.read_into(descriptor, chunk.view, position)
                if count < size:
                    raise CleaningFailed(
                        f"{segment.log_file.path} ends at {position + count}, not at {end}"
                    )
                self._throttle.spend(size)
                yield chunk
                chunk.view.release()
                if chunk.used:
                    position += chunk.used
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
        # The traceback of an exception may hold slices of the buffer, and frees it later.
        with contextlib.suppress(BufferError):
            self._buffer.close()
