"""The memory that the streams of one reader share, fetched or in flight. Lives in the loop.

A record batch comes whole, however small a fetch was asked for: where batches are large, less is
fetched ahead. What the reader waits for is fetched in any case.
"""

from __future__ import annotations

import asyncio
from typing import Final

_LIMIT_BYTES: Final = 48 << 20
_PIECES_AT_LEAST: Final = 3  # one that is decoded, one that is ready, one on its way


class FetchMemory:
    """Memory that the streams of one reader share."""

    def __init__(self, fetch_bytes: int) -> None:
        self._limit_bytes = max(_LIMIT_BYTES, _PIECES_AT_LEAST * fetch_bytes)
        self._taken_bytes = 0
        self._largest = 0
        self._changed = asyncio.Event()

    def share(self) -> Share:
        """The part of one stream."""
        return Share(self)

    async def wait(self, share: Share, size: int) -> int:
        """Take memory for about that size: wait for it, unless the reader waits for the piece."""
        while True:
            size = max(size, self._largest)
            if share.is_waited_for or self._taken_bytes + size <= self._limit_bytes:
                self.change(size)
                return size
            self._changed.clear()
            await self._changed.wait()

    def note(self, size: int) -> None:
        """Note how large a piece was: others may be as large."""
        self._largest = max(self._largest, size)

    def change(self, by_bytes: int) -> None:
        """Take memory, or give it back."""
        self._taken_bytes += by_bytes
        self.wake()

    def wake(self) -> None:
        """Have all waiting streams look again."""
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
        """Whether the reader has nothing else to decode."""
        return self._is_asked and not self._ready

    async def wait_to_fetch(self, size: int) -> None:
        """Before a fetch."""
        self._on_its_way = await self._memory.wait(self, size)

    def fetched(self, size: int) -> None:
        """After a fetch: how large it was."""
        self._memory.note(size)
        self._memory.change(size - self._on_its_way)
        self._on_its_way = 0
        self._ready.append(size)

    def leave_out(self) -> None:
        """The last fetch brought nothing for the reader."""
        self._memory.change(-self._ready.pop())

    def ask(self) -> None:
        """The reader is done with its last piece, and waits for the next."""
        self._is_asked = True
        self._memory.change(-self._in_use)
        self._in_use = 0

    def answer(self) -> None:
        """The reader has the next piece, if there is one."""
        self._is_asked = False
        if self._ready:
            self._in_use = self._ready.pop(0)

    def give_up(self) -> None:
        """The stream is given up."""
        self._memory.change(-self._on_its_way - sum(self._ready) - self._in_use)
        self._on_its_way = self._in_use = 0
        self._ready.clear()
