"""Share fetches that wait for records of a share partition, in the order of their arrival.

New records, and records that become available again, wake all fetches, in the order of arrival. So
the members of a group take turns; an unordered set might favour one member.
"""

from __future__ import annotations

from drumlin.replication.waiting_room import Waiter, WaitingRoom


class _Relay(Waiter):
    """Waits in the partition's waiting room for all fetches of the share partition."""

    __slots__ = ("_room",)

    def __init__(self, room: ShareRoom) -> None:
        super().__init__(0, room.disturb)
        self._room = room

    def advanced(self, readable_bytes: int) -> None:
        self._room.advanced(readable_bytes)

    def disturb(self) -> None:
        self._room.disturb()


class ShareRoom:
    """The fetches that wait for one share partition."""

    def __init__(self, partition_room: WaitingRoom) -> None:
        self._partition_room = partition_room
        self._relay = _Relay(self)
        self._waiters: dict[Waiter, None] = {}

    def __len__(self) -> int:
        return len(self._waiters)

    def enter(self, waiter: Waiter, *, for_stable: bool) -> None:
        # Fetches that are waiting already may have another isolation level, if the group's
        # isolation level has changed.
        self._partition_room.enter(self._relay, for_stable=for_stable)
        self._waiters[waiter] = None

    def leave(self, waiter: Waiter) -> None:
        self._waiters.pop(waiter, None)
        if not self._waiters:
            self._partition_room.leave(self._relay)

    def advanced(self, readable_bytes: int) -> None:
        """Wake the fetches, as the log has more to read."""
        for waiter in self._waiters:
            waiter.advanced(readable_bytes)

    def disturb(self) -> None:
        """Wake the fetches, as records may have become available."""
        for waiter in self._waiters:
            waiter.disturb()
