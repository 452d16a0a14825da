"""Share fetches that wait for records of a share partition, in the order in which they came.

New records and such as have become available again wake all of them; whoever waits longest
looks first. So the members of a group take turns, where a set would favour one of them.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Iterable

from drumlin.replication.waiting import Waiter, WaitingRoom


class _Relay(Waiter):
    """Stands in a partition's waiting room for all who wait for the share partition."""

    __slots__ = ("_room",)

    def __init__(self, room: ShareRoom) -> None:
        super().__init__(0, room.disturb)
        self._room = room

    def advanced(self, readable_bytes: int) -> None:
        self._room.advanced(readable_bytes)

    def disturb(self) -> None:
        self._room.disturb()


class ShareRoom:
    """Who waits for one share partition."""

    def __init__(self, partition_room: WaitingRoom) -> None:
        self._partition_room = partition_room
        self._relay = _Relay(self)
        self._waiters: dict[Waiter, None] = {}

    def __len__(self) -> int:
        return len(self._waiters)

    def enter(self, waiter: Waiter, *, for_stable: bool) -> None:
        if not self._waiters:
            self._partition_room.enter(self._relay, for_stable=for_stable)
        self._waiters[waiter] = None

    def leave(self, waiter: Waiter) -> None:
        self._waiters.pop(waiter, None)
        if not self._waiters:
            self._partition_room.leave(self._relay)

    def advanced(self, readable_bytes: int) -> None:
        """The log has more to read."""
        for waiter in self._waiters:
            waiter.advanced(readable_bytes)

    def disturb(self) -> None:
        """Something else may have changed what there is to get."""
        for waiter in self._waiters:
            waiter.disturb()


async def wait_in_turn(
    rooms: Iterable[ShareRoom], needed: int, timeout_s: float, *, for_stable: bool
) -> None:
    """Until so many more bytes can be read in all, a room is disturbed, or the time is over."""
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
