"""Fetches that wait for data of a partition: Kafka's purgatory.

Plain bookkeeping: the code that advances a partition calls `advanced` or `disturb`, and every
waiter whose condition is met is notified once. A waiter may be in the rooms of many partitions, and
leaves all of them when it stops waiting for whatever reason. A watcher stays, and is notified of
every change: fetch sessions use it to remember which partitions to check.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Iterable
from typing import Protocol

from drumlin.turns import give_way


class Watcher(Protocol):
    """An observer of a partition's changes.

    It is called in the middle of an append, so it must neither append, nor enter or leave a room.
    """

    def advanced(self, readable_bytes: int) -> None:
        """Handle an advance of the high watermark."""

    def stable_advanced(self, readable_bytes: int) -> None:
        """Handle an advance of the last stable offset, if the watcher has entered for that."""

    def disturb(self) -> None:
        """Handle a change after which a waiting fetch must be answered now."""

    def note(self) -> None:
        """Handle a change that can wait for the consumer's next request."""


class Waiter:
    """Waits until `needed` more bytes can be read, or a change must be reported now.

    `on_done` is called once, in the middle of an append, so it must neither append, nor enter or
    leave a room.
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
        """Ignore the change, for which this waiter does not wait."""


class Room(Protocol):
    """A partition's waiting room for one kind of request."""

    def enter(self, waiter: Waiter, *, for_stable: bool) -> None:
        """Add a waiter; with `for_stable`, it waits for the last stable offset to advance."""

    def leave(self, waiter: Waiter) -> None:
        """Remove a waiter, even one that was notified already or never entered."""


class WaitingRoom:
    """The waiters of one partition, for the high watermark or the last stable offset."""

    __slots__ = ("_for_stable", "_waiters")

    def __init__(self) -> None:
        self._waiters: set[Watcher] = set()
        self._for_stable: set[Watcher] = set()

    def __len__(self) -> int:
        return len(self._waiters) + len(self._for_stable)

    def enter(self, waiter: Watcher, *, for_stable: bool = False) -> None:
        (self._for_stable if for_stable else self._waiters).add(waiter)

    def watch(self, watcher: Watcher, *, also_for_stable: bool) -> None:
        """Add a watcher for all changes; with `also_for_stable`, also for the last stable
        offset.
        """
        self._waiters.add(watcher)
        if also_for_stable:
            self._for_stable.add(watcher)

    def leave(self, waiter: Watcher) -> None:
        self._waiters.discard(waiter)
        self._for_stable.discard(waiter)

    def advanced(self, readable_bytes: int) -> None:
        """Notify of an advance of the high watermark, which has made more bytes readable."""
        for waiter in self._waiters:
            waiter.advanced(readable_bytes)

    def stable_advanced(self, readable_bytes: int) -> None:
        """Notify of an advance of the last stable offset, alone or with the high watermark."""
        for waiter in self._for_stable:
            waiter.stable_advanced(readable_bytes)

    def disturb(self) -> None:
        """Have every waiter check again, as leadership, the log start offset or the topic has
        changed.
        """
        for waiter in self._waiters:
            waiter.disturb()
        for waiter in self._for_stable:
            waiter.disturb()

    def note(self) -> None:
        """Notify watchers that old records were deleted; no waiter waits for that."""
        for waiter in self._waiters:
            waiter.note()


class Stay:
    """A waiter's stay in several rooms; it is notified of every change after it has entered.

    So a caller that enters, then checks the partition, and then waits, does not miss any change.
    """

    def __init__(self, needed: int, *, for_stable: bool = False) -> None:
        """Prepare to wait for `needed` more bytes, or for a change that must be answered."""
        self._notified: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiter = Waiter(needed, functools.partial(_settle, self._notified))
        self._for_stable = for_stable
        self._rooms: list[Room] = []

    def enter(self, room: Room) -> None:
        self._rooms.append(room)
        room.enter(self._waiter, for_stable=self._for_stable)

    async def until_notified(self, timeout_s: float) -> None:
        """Wait for the notification, at most for `timeout_s`; returns at once if already
        notified.
        """
        timer = asyncio.get_running_loop().call_later(timeout_s, self._waiter.disturb)
        try:
            await self._notified
        finally:
            timer.cancel()

    def leave(self) -> None:
        """Leave all rooms."""
        while self._rooms:
            self._rooms.pop().leave(self._waiter)

    async def leave_in_turns(self) -> None:
        """Leave all rooms, of which there may be thousands."""
        try:
            while self._rooms:
                self._rooms.pop().leave(self._waiter)
                await give_way()
        finally:  # after a cancellation, leave the others at once
            self.leave()


async def wait_in(
    rooms: Iterable[Room], needed: int, timeout_s: float, *, for_stable: bool = False
) -> None:
    """Wait until `needed` more bytes can be read, a change must be reported, or the time is
    over.
    """
    stay = Stay(needed, for_stable=for_stable)
    try:
        for room in rooms:
            stay.enter(room)
        await stay.until_notified(timeout_s)
    finally:
        stay.leave()


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
