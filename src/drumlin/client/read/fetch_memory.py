"""The memory for fetches that the streams of one reader share. Used in the loop only.

A fetch returns whole record batches, even if they exceed its limit. If batches are large, fewer are
fetched ahead. The piece for which the reader waits is always fetched.
"""

from __future__ import annotations

import asyncio
from typing import Final

_LIMIT_BYTES: Final = 48 << 20
_PIECES_AT_LEAST: Final = 3  # one being decoded, one ready, one in flight


class FetchMemory:
    """The shared memory and its limit."""

    def __init__(self, fetch_bytes: int) -> None:
        self._limit_bytes = max(_LIMIT_BYTES, _PIECES_AT_LEAST * fetch_bytes)
        self._taken_bytes = 0
        self._largest = 0
        self._changed = asyncio.Event()

    def share(self) -> Share:
        """The share of a new stream."""
        return Share(self)

    async def wait(self, share: Share, size: int) -> int:
        """Reserve about `size` bytes, once they are free or the reader waits for the piece."""
        while True:
            size = max(size, self._largest)
            if share.is_waited_for or self._taken_bytes + size <= self._limit_bytes:
                self.change(size)
                return size
            self._changed.clear()
            await self._changed.wait()

    def note(self, size: int) -> None:
        """Note the size of a piece: the next ones may be as large."""
        self._largest = max(self._largest, size)

    def change(self, by_bytes: int) -> None:
        """Reserve memory, or release it (below 0)."""
        self._taken_bytes += by_bytes
        self.wake()

    def wake(self) -> None:
        """Wake all waiting streams."""
        self._changed.set()


class Share:
    """One stream's share: the bytes that it holds, and whether the reader waits for it."""

    def __init__(self, memory: FetchMemory) -> None:
        self._memory = memory
        self._on_its_way = 0
        self._ready: list[int] = []
        self._in_use = 0
        self._is_asked = False

    @property
    def is_waited_for(self) -> bool:
        """Whether the reader waits for this stream's next piece."""
        return self._is_asked and not self._ready

    async def wait_to_fetch(self, size: int) -> None:
        """Wait for memory before a fetch."""
        self._on_its_way = await self._memory.wait(self, size)

    def fetched(self, size: int) -> None:
        """Note the size of a fetched piece."""
        self._memory.note(size)
        self._memory.change(size - self._on_its_way)
        self._on_its_way = 0
        self._ready.append(size)

    def leave_out(self) -> None:
        """Release the last piece, which had no batch for the reader."""
        self._memory.change(-self._ready.pop())

    def ask(self) -> None:
        """Release the reader's last piece, as it waits for the next."""
        self._is_asked = True
        self._memory.change(-self._in_use)
        self._in_use = 0

    def answer(self) -> None:
        """Note that the reader gets the next piece, if there is one."""
        self._is_asked = False
        if self._ready:
            self._in_use = self._ready.pop(0)

    def give_up(self) -> None:
        """Release everything, as the stream is closed."""
        self._memory.change(-self._on_its_way - sum(self._ready) - self._in_use)
        self._on_its_way = self._in_use = 0
        self._ready.clear()
