"""A budget for the memory of requests that are arriving or not answered yet.

One frame may have 100 MB, and there may be thousands of connections. Together they may hold
`limit_bytes`; beyond that, no connection is read from until others have freed memory, and TCP makes
its peer wait. One connection at a time may exceed the budget, or a large request could block
itself. Requests of ordinary size have a reserve of their own, so that they overtake waiting large
ones.

While memory is short, a connection whose peer has sent and taken next to nothing for some seconds
is closed, because others wait for its memory; those with the most memory are closed first. When the
connection that may exceed the budget is closed, the waiting ones may be just as slow, and detecting
them one by one would take too long. So the largest waiting connections are closed with it, until
the remaining ones can continue.

Small requests are not counted: their buffers are part of the normal cost of a connection.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Protocol

#: A peer that has sent and received almost nothing for this long has stalled.
_STALL_S: Final = 10.0
#: The same limit for the one connection that may exceed the budget.
_EXEMPT_STALL_S: Final = 3.0
#: At least this fraction of a request has to arrive in `_STALL_S`: 100 MB within eleven minutes.
_LEAST_PART: Final = 64
#: The reserve is for connections whose requests together have at most this size.
_ORDINARY_BYTES: Final = 1 << 20
#: The reserve, as a fraction of the limit and in addition to it.
_RESERVE_PART: Final = 8
#: A longer time between two checks counts as this, because the broker itself was slow.
_LOOK_S_MAX: Final = 2.0


class Holder(Protocol):
    """A connection, as the budget sees it."""

    @property
    def moved_bytes(self) -> int:
        """Bytes received from the peer and sent to it since the connection began."""

    @property
    def awaits_peer(self) -> bool:
        """Whether memory can only be freed here once the peer sends or takes something."""

    def resume_reading(self) -> None: ...

    def close(self, reason: Exception | str | None) -> None: ...


@dataclass(slots=True)
class _Held:
    """The memory of one connection, and since when its peer has hardly sent or received bytes."""

    held_bytes: int
    wanted_bytes: int
    moved_before: int
    slow_s: float = 0.0

    @property
    def ordinary_bytes(self) -> int:
        return self.held_bytes if self.wanted_bytes <= _ORDINARY_BYTES else 0


class RequestMemory:
    """The memory that each connection holds, and the connections that wait for memory."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._reserve = limit_bytes // _RESERVE_PART
        self._held: dict[Holder, _Held] = {}
        self._total = 0
        self._ordinary = 0  # the part of it that ordinary requests hold
        self._waiting: dict[Holder, None] = {}  # in the order of arrival
        self._waiting_ordinary: dict[Holder, None] = {}
        self._exempt: Holder | None = None
        self._looked_at = 0.0

    @property
    def held_bytes(self) -> int:
        return self._total

    def hold(self, holder: Holder, held_bytes: int, wanted_bytes: int = 0) -> bool:
        """Report the memory that `holder` has now; False if it must not read until it is resumed.

        `wanted_bytes`: the memory that it will have when all announced bytes have arrived.
        """
        wanted_bytes = max(wanted_bytes, held_bytes)
        self._note(holder, held_bytes, wanted_bytes)
        is_ordinary = wanted_bytes <= _ORDINARY_BYTES
        if self._has_room(is_ordinary):
            self._resume_one()
            return True
        if held_bytes == 0 or self._exempt in (None, holder):
            if held_bytes:
                self._exempt = holder
            return True
        (self._waiting_ordinary if is_ordinary else self._waiting)[holder] = None
        return False

    def _has_room(self, is_ordinary: bool) -> bool:
        return self._total <= self._limit or (is_ordinary and self._ordinary <= self._reserve)

    def _note(self, holder: Holder, held_bytes: int, wanted_bytes: int) -> None:
        held = self._held.get(holder)
        if held is None:
            held = self._held[holder] = _Held(0, 0, holder.moved_bytes)
        self._total -= held.held_bytes
        self._ordinary -= held.ordinary_bytes
        held.held_bytes, held.wanted_bytes = held_bytes, wanted_bytes
        self._total += held.held_bytes
        self._ordinary += held.ordinary_bytes
        if not held_bytes:
            del self._held[holder]
            if self._exempt is holder:
                self._exempt = None

    def forget(self, holder: Holder) -> None:
        """Forget a closed connection."""
        self._waiting.pop(holder, None)
        self._waiting_ordinary.pop(holder, None)
        if holder in self._held:
            self.hold(holder, 0)
        self._resume_one()

    def has_plenty(self) -> bool:
        """Whether memory may be allocated for frames that are announced but have not arrived."""
        return self._total <= self._limit // 2

    def _resume_one(self) -> None:
        # One at a time: each reports its memory when it resumes, and then the next may resume.
        for waiting, is_ordinary in ((self._waiting_ordinary, True), (self._waiting, False)):
            if waiting and (self._has_room(is_ordinary) or self._exempt is None):
                holder = next(iter(waiting))
                del waiting[holder]
                holder.resume_reading()
                return

    def look_after(self, now: float) -> None:
        """Resume connections, and close those with stalled peers. Called every second."""
        elapsed_s = min(now - self._looked_at, _LOOK_S_MAX)
        self._looked_at = now
        if self._waiting or self._waiting_ordinary:
            self._close_slow(elapsed_s)
        else:
            for held in self._held.values():
                held.slow_s = 0.0
        # A resumed connection may have nothing to receive, and then resumes no other.
        if self._has_room(is_ordinary=True):
            self._resume_all(self._waiting_ordinary)
        if self._has_room(is_ordinary=False):
            self._resume_all(self._waiting)
        self._resume_one()

    def _resume_all(self, waiting: dict[Holder, None]) -> None:
        holders = list(waiting)
        waiting.clear()
        for holder in holders:
            holder.resume_reading()

    def _close_slow(self, elapsed_s: float) -> None:
        """Close connections with stalled peers while memory is short."""
        slow: dict[Holder, float] = {}
        for holder, held in self._held.items():
            moved = holder.moved_bytes
            stall_s = _EXEMPT_STALL_S if holder is self._exempt else _STALL_S
            least = max(1, int(held.wanted_bytes / _LEAST_PART * stall_s / _STALL_S))
            if not holder.awaits_peer or moved - held.moved_before >= least:
                held.moved_before, held.slow_s = moved, 0.0
                continue
            held.slow_s += elapsed_s
            if held.slow_s >= stall_s:
                slow[holder] = held.slow_s
        is_stuck = self._exempt in slow
        for holder in self._by_size(slow):
            if self.has_plenty():
                return
            holder.close(
                "held request memory for which others wait, and sent or took next to nothing for "
                f"{slow[holder]:.0f} s"
            )
        for holder in self._by_size(self._waiting if is_stuck else ()):
            if self.has_plenty():
                return
            holder.close("held much of the request memory, of which there is too little")

    def _by_size(self, holders: Iterable[Holder]) -> list[Holder]:
        """The connections that hold memory, the largest first."""
        holding = [each for each in holders if each in self._held]
        return sorted(holding, key=lambda each: self._held[each].held_bytes, reverse=True)
