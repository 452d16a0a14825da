"""Requests that wait for a partition to move: fetches for data, produces for their replicas.

Plain bookkeeping with futures: whoever advances a partition calls `advanced` or `disturb` on
the loop, and the waiter's future is done. A waiter registers with several partitions at once
and leaves all of them when it stops waiting, however it stops.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable


class Waiter:
    """Waits until `needed` more bytes can be read, or until something must be answered now."""

    __slots__ = ("_needed", "future")

    def __init__(self, needed: int) -> None:
        self._needed = needed
        self.future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def advanced(self, readable_bytes: int) -> None:
        self._needed -= readable_bytes
        if self._needed <= 0:
            self.disturb()

    def disturb(self) -> None:
        if not self.future.done():
            self.future.set_result(None)


class WaitingRoom:
    """The waiters of one partition."""

    __slots__ = ("_waiters",)

    def __init__(self) -> None:
        self._waiters: set[Waiter] = set()

    def __len__(self) -> int:
        return len(self._waiters)

    def enter(self, waiter: Waiter) -> None:
        self._waiters.add(waiter)

    def leave(self, waiter: Waiter) -> None:
        self._waiters.discard(waiter)

    def advanced(self, readable_bytes: int) -> None:
        """More bytes have become readable."""
        for waiter in self._waiters:
            waiter.advanced(readable_bytes)

    def disturb(self) -> None:
        """Leadership, log start or the topic itself changed: everyone looks again."""
        for waiter in self._waiters:
            waiter.disturb()


async def wait_in(rooms: Iterable[WaitingRoom], waiter: Waiter, timeout_s: float) -> None:
    """Until the waiter is done or the time is over."""
    rooms = list(rooms)
    for room in rooms:
        room.enter(waiter)
    timer = asyncio.get_running_loop().call_later(timeout_s, waiter.disturb)
    try:
        await waiter.future
    finally:
        timer.cancel()
        for room in rooms:
            room.leave(waiter)
