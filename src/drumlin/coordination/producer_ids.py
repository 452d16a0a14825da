"""Producer ids for idempotent producers: taken from the metadata store in blocks.

A block is recorded as taken before its first id is given out. What is left of it when the
broker stops is lost, and no id is ever given out twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from drumlin.metadata.store import ProducerIdBlock


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
        while self._next_id == self._end_id:
            await self._refill()
        producer_id = self._next_id
        self._next_id += 1
        return producer_id

    async def _refill(self) -> None:
        async with self._refilling:
            if self._next_id == self._end_id:  # else whoever held the lock has done it
                first, size = await self._next_block()
                self._next_id, self._end_id = first, first + size
