"""Length-prefixed frames out of a stream of bytes. Pure: it is given bytes and gives frames.

Made for `asyncio.BufferedProtocol`: the transport receives straight into our memory. Small
frames share one buffer and are copied out of it; a frame that does not fit gets memory of its
own, into which the rest is received without a copy. Memory grows with what has really arrived:
a peer that announces 100 MB and sends nothing costs next to nothing, and only one that has sent
a large frame whole is trusted with the memory for the next one from its first byte on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from drumlin.wire.errors import MalformedMessage

_SHARED_SIZE: Final = 64 * 1024
_SHARED_SIZE_FIRST: Final = 4 * 1024  # until a read has filled it
_TRUSTED_FIRST: Final = 16 * 1024
_GROWTH: Final = 8
_PREFIX: Final = 4


class FrameReader:
    """Cuts one connection's stream into frames of at most `max_frame_bytes`.

    Call `writable()` for the memory to receive into, then `received(n)`; it returns the frames
    that are complete. Small frames are read-only copies; a large one is writable memory that
    belongs to whoever holds it. A trusting side may bring that memory itself: `allocate` is given
    a frame's size, and gives at least as much, or None to let it grow here as the frame arrives.
    """

    __slots__ = (
        "_allocate",
        "_end",
        "_large",
        "_large_filled",
        "_large_size",
        "_max",
        "_shared",
        "_start",
        "_trusted",
    )

    def __init__(
        self, max_frame_bytes: int, allocate: Callable[[int], bytearray | None] | None = None
    ) -> None:
        self._max = max_frame_bytes
        self._allocate = allocate
        self._shared = bytearray(_SHARED_SIZE_FIRST)
        self._start = 0  # first byte not yet given out
        self._end = 0  # first byte not yet received
        self._large: bytearray | None = None
        self._large_size = 0
        self._large_filled = 0
        self._trusted = _TRUSTED_FIRST  # memory for a large frame of which little has arrived

    @property
    def held_bytes(self) -> int:
        """Memory of a large frame that is arriving, beyond the buffer every reader has."""
        return 0 if self._large is None else len(self._large)

    def writable(self) -> memoryview:
        """Memory for the next bytes of the stream; never empty."""
        if self._large is not None:
            if self._large_filled == len(self._large):
                grown = min(self._large_size, len(self._large) * _GROWTH)
                self._large = _enlarged(self._large, grown)
            return memoryview(self._large)[self._large_filled : self._large_size]
        return memoryview(self._shared)[self._end :]

    def buffers(self) -> list[memoryview]:
        """As `writable`, for a scattered read: behind the rest of a large frame goes what follows.

        Without it the end of every large frame would cost a call of its own.
        """
        first = self.writable()
        if self._large is not None and self._large_filled + len(first) == self._large_size:
            return [first, memoryview(self._shared)]
        return [first]

    def received(self, count: int) -> list[memoryview]:
        """The frames completed by the `count` bytes just received, without their prefixes.

        Raises:
            MalformedMessage: a length below zero or above the maximum.
        """
        if self._large is None:
            self._end += count
            return self._cut()
        taken = min(count, self._large_size - self._large_filled)
        self._large_filled += taken
        if self._large_filled < self._large_size:
            return []
        frame = memoryview(self._large)[: self._large_size]
        self._trusted = max(self._trusted, self._large_size)
        self._large = None
        self._large_filled = 0
        self._end = count - taken  # the shared buffer was empty
        return [frame, *self._cut()]

    def _cut(self) -> list[memoryview]:
        frames: list[memoryview] = []
        memory = memoryview(self._shared)
        while self._end - self._start >= _PREFIX:
            body = self._start + _PREFIX
            size = int.from_bytes(memory[self._start : body], "big", signed=True)
            if size < 0 or size > self._max:
                if frames:
                    break  # they came before it and are answered first; the next call raises
                raise MalformedMessage(
                    f"a frame of {size} bytes; socket.request.max.bytes allows {self._max}"
                )
            if self._end - body >= size:
                frames.append(memoryview(bytes(memory[body : body + size])))
                self._start = body + size
            else:
                if size > _SHARED_SIZE - _PREFIX:
                    self._begin_large(size, body)
                break
        self._compact()
        return frames

    def _begin_large(self, size: int, body: int) -> None:
        held = self._end - body
        memory = None if self._allocate is None else self._allocate(size)
        if memory is None:
            memory = bytearray(min(size, max(self._trusted, held)))
        self._large = memory
        self._large[:held] = self._shared[body : self._end]
        self._large_size = size
        self._large_filled = held
        self._start = self._end = 0

    def _compact(self) -> None:
        if self._end == len(self._shared) < _SHARED_SIZE:
            self._shared = _enlarged(self._shared, _SHARED_SIZE)
        held = self._end - self._start
        if held == 0:
            self._start = self._end = 0
        elif self._start:
            self._shared[:held] = self._shared[self._start : self._end]
            self._start, self._end = 0, held


def _enlarged(memory: bytearray, size: int) -> bytearray:
    larger = bytearray(size)
    larger[: len(memory)] = memory
    return larger
