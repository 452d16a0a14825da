"""Requests that wait for a partition to move: fetches, until there is data to read.

Plain bookkeeping: the code that advances a partition calls `advanced` or `disturb`, and the waiters
whose condition is met are notified, once. A waiter registers with several partitions at once and
leaves all of them when it stops waiting, however it stops. A watcher stays, and is notified of
every change: fetch sessions use it to remember which partitions to check.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Iterable
from typing import Protocol

from drumlin.turns import give_way


class Watcher(Protocol):
    """Something that is notified of the changes of a partition.

    Called in the middle of an append: it must not append, enter or leave.
    """

    def advanced(self, readable_bytes: int) -> None:
        """The high watermark advanced."""

    def stable_advanced(self, readable_bytes: int) -> None:
        """The last stable offset advanced: only those that entered for it are notified."""

    def disturb(self) -> None:
        """Something else changed that a waiting fetch must be answered for now."""

    def note(self) -> None:
        """Something else changed that can wait for the consumer's next request."""


class Waiter:
    """Waits until `needed` more bytes can be read, or until something must be answered now.

    `on_done` is called once, in the middle of an append: it must not append, enter or leave.
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
        """Do nothing: this waiter does not wait for that event."""


class Room(Protocol):
    """What a waiter can enter."""

    def enter(self, waiter: Waiter, *, for_stable: bool) -> None:
        """`for_stable`: it waits for records below the last stable offset."""

    def leave(self, waiter: Waiter) -> None:
        """Remove a waiter, even if it was notified already or never entered."""


class WaitingRoom:
    """The waiters of one partition: for the high watermark or the last stable offset."""

    __slots__ = ("_for_stable", "_waiters")

    def __init__(self) -> None:
        self._waiters: set[Watcher] = set()
        self._for_stable: set[Watcher] = set()

    def __len__(self) -> int:
        return len(self._waiters) + len(self._for_stable)

    def enter(self, waiter: Watcher, *, for_stable: bool = False) -> None:
        (self._for_stable if for_stable else self._waiters).add(waiter)

    def watch(self, watcher: Watcher, *, also_for_stable: bool) -> None:
        """Enter for all changes; with `also_for_stable` for the last stable offset too."""
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
        """Leadership, log start offset or the topic itself changed: every waiter looks again."""
        for waiter in self._waiters:
            waiter.disturb()
        for waiter in self._for_stable:
            waiter.disturb()

    def note(self) -> None:
        """Old records were deleted: no waiter waits for that, but watchers check it next time."""
        for waiter in self._waiters:
            waiter.note()


class Stay:
    """One waiter in several rooms, which is notified of changes in a room once it has entered.

    A caller that checks a partition after entering, and then waits, misses nothing in between.
    """

    def __init__(self, needed: int, *, for_stable: bool = False) -> None:
        """Wait until `needed` more bytes can be read, or something else happened."""
        self._told: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiter = Waiter(needed, functools.partial(_settle, self._told))
        self._for_stable = for_stable
        self._rooms: list[Room] = []

    def enter(self, room: Room) -> None:
        self._rooms.append(room)
        room.enter(self._waiter, for_stable=self._for_stable)

    async def until_told(self, timeout_s: float) -> None:
        """Wait for the notification, at most `timeout_s`; returns at once if it came already."""
        timer = asyncio.get_running_loop().call_later(timeout_s, self._waiter.disturb)
        try:
            await self._told
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
        finally:  # cancelled: leave the others at once
            self.leave()


async def wait_in(
    rooms: Iterable[Room], needed: int, timeout_s: float, *, for_stable: bool = False
) -> None:
    """Wait until `needed` more bytes can be read, something else happened, or time is up."""
    stay = Stay(needed, for_stable=for_stable)
    try:
        for room in rooms:
            stay.enter(room)
        await stay.until_told(timeout_s)
    finally:
        stay.leave()


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
