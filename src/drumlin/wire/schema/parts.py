"""An encoded message in the making, and what may stand in a message that was encoded before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Self

_SMALL_BYTES: Final = 4096


class Parts:
    """Collects an encoded message: bytes, and between them the records as they were given.

    `buffer` is what the next bytes are appended to; it is emptied, never replaced.
    """

    __slots__ = ("_parts", "_size", "buffer")

    def __init__(self) -> None:
        self.buffer = bytearray()
        self._parts: list[Any] = []
        self._size = 0

    def put(self, data: Any) -> None:
        """Add `data` as it is: copied if it is a few bytes, else as a part of its own."""
        if isinstance(data, (bytes, bytearray, memoryview)) and len(data) < _SMALL_BYTES:
            self.buffer += data
            return
        self._end_part()
        self._parts.append(data)
        self._size += len(data)

    def finish(self) -> list[Any]:
        """The parts, to be sent one after the other."""
        self._end_part()
        return self._parts

    def finish_frame(self) -> list[Any]:
        """Like `finish`, for a frame: the length replaces its first four bytes, put as zeros."""
        parts = self.finish()
        parts[0] = (self._size - 4).to_bytes(4, "big") + parts[0][4:]
        return parts

    def joined(self) -> bytes:
        """All of it in one piece: for messages of bytes alone."""
        return b"".join(self.finish()) if self._parts else bytes(self.buffer)

    def _end_part(self) -> None:
        if self.buffer:
            self._parts.append(bytes(self.buffer))
            self._size += len(self.buffer)
            self.buffer.clear()


class EncodedItems(tuple[Any, ...]):
    """Stands for an array of structs in a message: its elements, already encoded.

    `count`: the number of elements, where an item holds several of them.
    """

    _count: int

    def __new__(cls, items: Sequence[bytes], count: int | None = None) -> Self:
        made = super().__new__(cls, items)
        made._count = len(items) if count is None else count
        return made

    def __len__(self) -> int:
        return self._count

    def put(self, out: Parts) -> None:
        """Append them all."""
        out.put(b"".join(self))
