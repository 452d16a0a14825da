"""Producer ids for idempotent producers: taken from the metadata store in blocks.

A block is recorded as taken before its first id is given out. What is left of it when the
broker stops is lost, and no id is ever given out twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from drumlin.metadata.store.store import ProducerIdBlock


class BlockExhausted(Exception):
    """All ids of the block are given out; there are more after a `refill`."""


class ProducerIds:
    """Gives out ids that no other broker of the cluster gives out.

    `next_block()` durably takes a block of ids of the cluster.
    """

    def __init__(self, next_block: Callable[[], Awaitable[ProducerIdBlock]]) -> None:
        self._next_block = next_block
        self._next_id = 0
        self._end_id = 0
        self._refilling = asyncio.Lock()

    async def next_id(self) -> int:
        """An id that has never been given out."""
        while True:
            try:
                return self.take()
            except BlockExhausted:
                await self.refill()

    def take(self) -> int:
        """An id that has never been given out, at once.

        Raises:
            BlockExhausted: there is none before a `refill`.
        """
        if self._next_id == self._end_id:
            raise BlockExhausted
        producer_id = self._next_id
        self._next_id += 1
        return producer_id

    async def refill(self) -> None:
        """Take another block if there is no id at hand."""
        async with self._refilling:
            if self._next_id == self._end_id:  # else the former holder of the lock has done it
                first, size = await self._next_block()
                self._next_id, self._end_id = first, first + size
