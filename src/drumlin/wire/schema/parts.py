"""A message while it is being encoded, and arrays in it that were encoded before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Self

_SMALL_BYTES: Final = 4096


class Parts:
    """The parts of an encoded message: bytes, and between them the records, unchanged.

    Encoders append to `buffer`, which is emptied but never replaced, so they may keep it.
    """

    __slots__ = ("_parts", "_size", "buffer")

    def __init__(self) -> None:
        self.buffer = bytearray()
        self._parts: list[Any] = []
        self._size = 0

    def put(self, data: Any) -> None:
        """Add `data` unchanged: copied if it is a few bytes, else as a part of its own."""
        if isinstance(data, (bytes, bytearray, memoryview)) and len(data) < _SMALL_BYTES:
            self.buffer += data
            return
        self._end_part()
        self._parts.append(data)
        self._size += len(data)

    def finish(self) -> list[Any]:
        """All parts, to be sent one after the other."""
        self._end_part()
        return self._parts

    def finish_frame(self) -> list[Any]:
        """Like `finish`, for a frame, whose length is set in its first four bytes."""
        parts = self.finish()
        parts[0] = (self._size - 4).to_bytes(4, "big") + parts[0][4:]
        return parts

    def joined(self) -> bytes:
        """The whole message, if all its parts are bytes."""
        return b"".join(self.finish()) if self._parts else bytes(self.buffer)

    def _end_part(self) -> None:
        if self.buffer:
            self._parts.append(bytes(self.buffer))
            self._size += len(self.buffer)
            self.buffer.clear()


class EncodedItems(tuple[Any, ...]):
    """An array of structs in a message, whose elements are encoded already.

    `count`: the number of elements, if an item holds several of them.
    """

    _count: int

    def __new__(cls, items: Sequence[bytes], count: int | None = None) -> Self:
        made = super().__new__(cls, items)
        made._count = len(items) if count is None else count
        return made

    def __len__(self) -> int:
        return self._count

    def put(self, out: Parts) -> None:
        """Append all items."""
        out.put(b"".join(self))
