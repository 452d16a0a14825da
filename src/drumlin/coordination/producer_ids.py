"""Producer ids for idempotent producers, taken from the metadata store in blocks.

The store records a block as taken before the block's first id is allocated. When the broker stops,
the remaining ids are lost; no id is ever allocated twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from drumlin.metadata.store.store import ProducerIdBlock


class BlockExhausted(Exception):
    """All ids of the block are used; `refill` gets more."""


class ProducerIds:
    """Allocates ids that are unique in the cluster.

    `next_block()` durably takes a block of ids from the metadata store.
    """

    def __init__(self, next_block: Callable[[], Awaitable[ProducerIdBlock]]) -> None:
        self._next_block = next_block
        self._next_id = 0
        self._end_id = 0
        self._refilling = asyncio.Lock()

    async def next_id(self) -> int:
        """Allocate an id that has never been used."""
        while True:
            try:
                return self.take()
            except BlockExhausted:
                await self.refill()

    def take(self) -> int:
        """Like `next_id`, without waiting.

        Raises:
            BlockExhausted: a `refill` is necessary.
        """
        if self._next_id == self._end_id:
            raise BlockExhausted
        producer_id = self._next_id
        self._next_id += 1
        return producer_id

    async def refill(self) -> None:
        """Take another block if all ids are used."""
        async with self._refilling:
            if self._next_id == self._end_id:  # else the previous holder of the lock took a block
                first, size = await self._next_block()
                self._next_id, self._end_id = first, first + size
