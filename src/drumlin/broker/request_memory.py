"""A budget for the memory of requests: those that are arriving and those not answered yet.

One frame may be 100 MB, and there may be thousands of connections. Together they may hold
`limit_bytes`; beyond that a connection is not read from until others have let go, and TCP makes
its peer wait. One connection at a time may exceed the budget, or a large request could block
itself; if that one stalls while others wait behind it, it is closed.

Small requests are not counted: their buffers are part of what a connection costs.
"""

from __future__ import annotations

from collections import deque
from typing import Final, Protocol

_STALL_S: Final = 10.0


class Holder(Protocol):
    """A connection, as the budget sees it."""

    last_active: float

    def resume_reading(self) -> None: ...

    def close(self, reason: Exception | str | None) -> None: ...


class RequestMemory:
    """Who holds how much, and who waits for it."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._held: dict[Holder, int] = {}
        self._total = 0
        self._waiting: deque[Holder] = deque()
        self._exempt: Holder | None = None

    @property
    def held_bytes(self) -> int:
        return self._total

    def hold(self, holder: Holder, held_bytes: int) -> bool:
        """Say that `holder` holds this much now; False: it must not read until resumed."""
        self._total += held_bytes - self._held.get(holder, 0)
        if held_bytes:
            self._held[holder] = held_bytes
        else:
            self._held.pop(holder, None)
            if self._exempt is holder:
                self._exempt = None
        if self._total <= self._limit:
            self._resume_one()
            return True
        if held_bytes == 0 or self._exempt in (None, holder):
            if held_bytes:
                self._exempt = holder
            return True
        if holder not in self._waiting:
            self._waiting.append(holder)
        return False

    def forget(self, holder: Holder) -> None:
        """The connection is closed."""
        if holder in self._waiting:
            self._waiting.remove(holder)
        if holder in self._held:
            self.hold(holder, 0)
        self._resume_one()

    def has_plenty(self) -> bool:
        """Whether memory may be given to frames that are only announced."""
        return self._total <= self._limit // 2

    def _resume_one(self) -> None:
        # One at a time: each that goes on reports what it holds, and that lets the next go on.
        if self._waiting and (self._total <= self._limit or self._exempt is None):
            self._waiting.popleft().resume_reading()

    def look_after(self, now: float) -> None:
        """Called every second, so that nobody waits for a peer from which nothing comes."""
        self._close_stalled(now)
        if self._total <= self._limit:
            # Who was resumed may have nothing to receive, and then lets nobody go on.
            waiting, self._waiting = self._waiting, deque()
            for holder in waiting:
                holder.resume_reading()
        else:
            self._resume_one()

    def _close_stalled(self, now: float) -> None:
        """Close the connection that holds the others up, if nothing comes from it."""
        exempt = self._exempt
        if exempt is not None and self._waiting and now - exempt.last_active > _STALL_S:
            exempt.close(
                f"sent nothing for {_STALL_S:g} s in the middle of a request, while "
                f"{len(self._waiting)} connections wait for request memory"
            )
