"""Requests that wait for a partition to move: fetches for data, produces for their replicas.

Plain bookkeeping: whoever advances a partition calls `advanced` or `disturb`, and the waiters
that have waited long enough are told, once. A waiter registers with several partitions at once
and leaves all of them when it stops waiting, however it stops. A watcher stays, and is told of
everything: fetch sessions remember by it which partitions to look at.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Iterable
from typing import Protocol


class Watcher(Protocol):
    """Who is told what becomes of a partition.

    Called in the midst of an append: it must not append, enter or leave.
    """

    def advanced(self, readable_bytes: int) -> None:
        """The high watermark advanced."""

    def stable_advanced(self, readable_bytes: int) -> None:
        """The last stable offset advanced: only those that entered for it are told."""

    def disturb(self) -> None:
        """Something else changed that a reader has to be told now."""

    def note(self) -> None:
        """Something else changed that can wait for the reader's next request."""


class Waiter:
    """Waits until `needed` more bytes can be read, or until something must be answered now.

    `on_done` is called once, in the midst of an append: it must not append, enter or leave.
    """

    __slots__ = ("_is_done", "_needed", "_on_done")

    def __init__(self, needed: int, on_done: Callable[[], object]) -> None:
        self._needed = needed
        self._on_done = on_done
        self._is_done = False

    def advanced(self, readable_bytes: int) -> None:
        self._needed -= readable_bytes
        if self._needed <= 0:
            self.disturb()

    def stable_advanced(self, readable_bytes: int) -> None:
        self.advanced(readable_bytes)

    def disturb(self) -> None:
        if not self._is_done:
            self._is_done = True
            self._on_done()

    def note(self) -> None:
        """It does not wait for that."""


class Room(Protocol):
    """Where somebody can wait."""

    def enter(self, waiter: Waiter, *, for_stable: bool) -> None:
        """`for_stable`: it waits for what lies below the last stable offset."""

    def leave(self, waiter: Waiter) -> None:
        """Also if it has been told, or was never here."""


class WaitingRoom:
    """The waiters of one partition: for records, or for such as no transaction keeps back."""

    __slots__ = ("_for_stable", "_waiters")

    def __init__(self) -> None:
        self._waiters: set[Watcher] = set()
        self._for_stable: set[Watcher] = set()

    def __len__(self) -> int:
        return len(self._waiters) + len(self._for_stable)

    def enter(self, waiter: Watcher, *, for_stable: bool = False) -> None:
        (self._for_stable if for_stable else self._waiters).add(waiter)

    def watch(self, watcher: Watcher, *, also_for_stable: bool) -> None:
        """Enter for all that happens; with `also_for_stable` twice, in a way."""
        self._waiters.add(watcher)
        if also_for_stable:
            self._for_stable.add(watcher)

    def leave(self, waiter: Watcher) -> None:
        self._waiters.discard(waiter)
        self._for_stable.discard(waiter)

    def advanced(self, readable_bytes: int) -> None:
        """The high watermark advanced: more bytes have become readable."""
        for waiter in self._waiters:
            waiter.advanced(readable_bytes)

    def stable_advanced(self, readable_bytes: int) -> None:
        """The last stable offset advanced, by itself or with the high watermark."""
        for waiter in self._for_stable:
            waiter.stable_advanced(readable_bytes)

    def disturb(self) -> None:
        """Leadership, log start or the topic itself changed: everyone looks again."""
        for waiter in self._waiters:
            waiter.disturb()
        for waiter in self._for_stable:
            waiter.disturb()

    def note(self) -> None:
        """Old records went: nobody waits for that, but who watches looks at it next time."""
        for waiter in self._waiters:
            waiter.note()


async def wait_in(
    rooms: Iterable[Room], needed: int, timeout_s: float, *, for_stable: bool = False
) -> None:
    """Until `needed` more bytes can be read, something else happened, or the time is over."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()
    waiter = Waiter(needed, functools.partial(_settle, future))
    rooms = list(rooms)
    for room in rooms:
        room.enter(waiter, for_stable=for_stable)
    timer = loop.call_later(timeout_s, waiter.disturb)
    try:
        await future
    finally:
        timer.cancel()
        for room in rooms:
            room.leave(waiter)


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
