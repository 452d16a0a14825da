"""Turns at work of which little is done at once: nobody waits for all that another one wants."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Hashable
from weakref import WeakValueDictionary


class Turns:
    """So many turns at once, of each owner one. Owners have them in the order in which they ask.

    An owner's further wishes wait behind their first one, and not before those of others.
    """

    def __init__(self, at_once: int) -> None:
        self._free = asyncio.Semaphore(at_once)
        self._own: WeakValueDictionary[Hashable, asyncio.Lock] = WeakValueDictionary()

    @contextlib.asynccontextmanager
    async def of(self, owner: Hashable) -> AsyncIterator[None]:
        """A turn, once the owner has no other and one is free."""
        own = self._own.setdefault(owner, asyncio.Lock())
        async with own, self._free:
            yield
