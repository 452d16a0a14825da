"""Splits a stream of bytes into length-prefixed frames. Pure.

Bytes are received into a scratch buffer, which many readers of one event loop may share: the bytes
are split into frames before the next reader receives. Small frames are copied out of the buffer. A
large frame that has not arrived whole gets memory of its own, into which the rest is received
without a copy. That memory grows with the bytes that have arrived: a peer that announces 100 MB and
sends nothing costs next to nothing. Only a peer that has sent a complete large frame gets all
memory for the next one at its first byte, as long as there is plenty. An idle connection holds no
memory.

The largest frames get a mapping of their whole size, which the system backs with pages as bytes
arrive. So megabytes are neither zeroed at once nor copied when the buffer has to grow.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable
from typing import Final

from drumlin.wire.error_codes import MalformedMessage

SCRATCH_BYTES: Final = 256 * 1024
#: Frames up to this size are small: they are kept in `_rest` until complete.
_SMALL_BYTES: Final = 16 * 1024
_TRUSTED_FIRST: Final = 16 * 1024
_GROWTH: Final = 8
_GROWTH_WHEN_SHORT: Final = 2
#: Zeroing or copying less is cheap; fresh pages cost more than memory that was used before.
_MAPPED_FROM_BYTES: Final = 4 << 20
_MAPPED: Final = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
_LENGTH: Final = struct.Struct(">i")
_PREFIX: Final = _LENGTH.size
_API_KEY: Final = struct.Struct(">h")  # the first bytes of a request


class FrameReader:
    """Cuts one connection's stream into frames of at most `max_frame_bytes`.

    Receive into `buffers()` (or into `writable()`, the first of them) and call `received(n)` at
    once; it returns the frames that are complete: writable memory that belongs to the caller.
    `allocate` returns memory for a large frame, or None: then memory grows here as the frame
    arrives. The requested size is never far above what this peer has ever sent at once.
    `has_plenty` returns whether memory may grow far beyond what has arrived. `limit_of`, for frames
    that are requests, returns the maximum for an API key if that is lower than `max_frame_bytes`;
    it is never below a small frame's size, and may be replaced between frames.
    """

    __slots__ = (
        "_allocate",
        "_large",
        "_large_filled",
        "_large_room",
        "_large_size",
        "_rest",
        "_scratch",
        "_trusted",
        "has_plenty",
        "limit_of",
        "max_frame_bytes",
    )

    def __init__(
        self,
        max_frame_bytes: int,
        allocate: Callable[[int], bytearray | None] | None = None,
        scratch: bytearray | None = None,
        has_plenty: Callable[[], bool] = lambda: True,
        limit_of: Callable[[int], int | None] | None = None,
    ) -> None:
        self.max_frame_bytes = max_frame_bytes
        self._allocate = allocate
        self.has_plenty = has_plenty
        self.limit_of = limit_of
        self._scratch = memoryview(bytearray(SCRATCH_BYTES) if scratch is None else scratch)
        self._rest = b""  # the beginning of a small frame
        self._large: bytearray | mmap.mmap | None = None
        self._large_room = 0  # the part of that memory that may be filled
        self._large_size = 0
        self._large_filled = 0
        self._trusted = _TRUSTED_FIRST  # memory for a large frame of which little has arrived

    @property
    def held_bytes(self) -> int:
        """Bytes of memory for a large frame that is arriving."""
        return 0 if self._large is None else self._large_room

    @property
    def announced_bytes(self) -> int:
        """The value of `held_bytes` once the arriving frame is complete."""
        return 0 if self._large is None else self._large_size

    @property
    def missing_bytes(self) -> int:
        """Bytes of the arriving large frame that are still missing."""
        return 0 if self._large is None else self._large_size - self._large_filled

    def buffers(self) -> list[memoryview]:
        """Memory for the next bytes of the stream, for a scattered read; never empty.

        The rest of a large frame comes first, then room for the bytes after it: without that room,
        the end of every large frame would cost a call of its own.
        """
        if self._large is None:
            rest = self._rest
            if not rest:
                return [self._scratch]
            self._scratch[: len(rest)] = rest
            return [self._scratch[len(rest) :]]
        if self._large_filled == self._large_room:
            growth = _GROWTH if self.has_plenty() else _GROWTH_WHEN_SHORT
            self._large_room = min(self._large_size, self._large_room * growth)
            if self._large_room > len(self._large):
                larger = bytearray(self._large_room)
                larger[: self._large_filled] = self._large
                self._large = larger
        first = memoryview(self._large)[self._large_filled : self._large_room]
        if self._large_filled + len(first) == self._large_size:
            return [first, self._scratch]
        return [first]

    def writable(self) -> memoryview:
        """The first of `buffers()`, for a reader that takes only one buffer."""
        return self.buffers()[0]

    def received(self, count: int) -> list[memoryview]:
        """The frames completed by the `count` bytes just received, without their prefixes.

        Raises:
            MalformedMessage: a length below zero, or above the maximum or that of its API.
        """
        frames: list[memoryview] = []
        if self._large is None:
            end = len(self._rest) + count
            if _PREFIX <= end <= _SMALL_BYTES and self._is_one_frame(end):
                self._rest = b""
                return [memoryview(bytearray(self._scratch[_PREFIX:end]))]
        else:
            taken = min(count, self._large_size - self._large_filled)
            self._large_filled += taken
            if self._large_filled < self._large_size:
                return []
            frames.append(memoryview(self._large)[: self._large_size])
            self._large = None
            self._trusted = max(self._trusted, self._large_size)
            end = count - taken
        start = self._cut(end, frames)
        self._rest = bytes(self._scratch[start:end])
        return frames

    def _is_one_frame(self, end: int) -> bool:
        """Whether exactly one small frame arrived: the usual case, as the peer then waits."""
        size: int = _LENGTH.unpack_from(self._scratch)[0]
        return size == end - _PREFIX and size <= self.max_frame_bytes

    def _cut(self, end: int, frames: list[memoryview]) -> int:
        """Take whole frames out of `scratch[:end]`; returns the start of the first partial one."""
        scratch, start = self._scratch, 0
        small = min(self.max_frame_bytes, _SMALL_BYTES)
        while end - start >= _PREFIX:
            body = start + _PREFIX
            size: int = _LENGTH.unpack_from(scratch, start)[0]
            try:
                if not (0 <= size <= small or self._is_admitted(size, scratch[body:end])):
                    return start
            except MalformedMessage:
                if frames:
                    return start  # earlier frames are answered first; the next call raises
                raise
            if end - body >= size:
                frames.append(memoryview(bytearray(scratch[body : body + size])))
            elif size > _SMALL_BYTES:
                self._begin_large(size, scratch[body:end])
                return end
            else:
                return start
            start = body + size
        return start

    def _is_admitted(self, size: int, begun: memoryview) -> bool:
        """Whether a frame may be this large, before memory is allocated; False: not known yet.

        Raises:
            MalformedMessage: the frame is too large.
        """
        if size < 0 or size > self.max_frame_bytes:
            allowed = f"socket.request.max.bytes allows {self.max_frame_bytes}"
            raise MalformedMessage(f"a frame of {size} bytes; {allowed}")
        if self.limit_of is None:
            return True
        if len(begun) < _API_KEY.size:
            return False
        (api_key,) = _API_KEY.unpack_from(begun)
        limit = self.limit_of(api_key)
        if limit is not None and size > limit:
            message = f"a request of {size} bytes; API key {api_key} allows {limit}"
            raise MalformedMessage(message)
        return True

    def _begin_large(self, size: int, held: memoryview) -> None:
        memory: bytearray | mmap.mmap | None = None
        if self._allocate is not None and size <= self._trusted * _GROWTH:
            memory = self._allocate(size)
        if memory is None:
            trusted = self._trusted if self.has_plenty() else _TRUSTED_FIRST
            room = min(size, max(trusted, len(held)))
            is_mapped = size >= _MAPPED_FROM_BYTES
            memory = mmap.mmap(-1, size, flags=_MAPPED) if is_mapped else bytearray(room)
        else:
            room = size
        memory[: len(held)] = held
        self._large = memory
        self._large_room = room
        self._large_size = size
        self._large_filled = len(held)
