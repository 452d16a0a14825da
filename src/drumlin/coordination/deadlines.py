"""Deadlines by key: a plain data structure, without an event loop.

Deadlines are moved often (by every heartbeat) and rarely pass. So if a key's deadline is moved
later, the key's heap entry stays where it is; the key is queued again when that entry reaches the
top. The heap entry of a cancelled deadline also stays until it reaches the top.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterator
from typing import Final, Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)

#: The maximum number of heap entries of cancelled deadlines that one check removes. A check adds at
#: most one entry.
_GIVEN_UP_MAX: Final = 64


class DeadlineQueue(Generic[Key]):
    """A queue with at most one deadline for each key, in seconds of a monotonic clock."""

    def __init__(self) -> None:
        self._deadlines: dict[Key, float] = {}
        self._heap: list[tuple[float, int, Key]] = []
        self._queued_at: dict[Key, float] = {}
        self._sequence = 0  # a tie-breaker, as keys are not comparable

    def __len__(self) -> int:
        return len(self._deadlines)

    def items(self) -> Iterator[tuple[Key, float]]:
        """All deadlines, in no particular order."""
        return iter(self._deadlines.items())

    def schedule(self, key: Key, deadline: float) -> None:
        """Set the key's deadline, replacing an earlier one."""
        self._deadlines[key] = deadline
        queued_at = self._queued_at.get(key)
        if queued_at is None or deadline < queued_at:
            self._push(key, deadline)

    def is_scheduled(self, key: Key) -> bool:
        return key in self._deadlines

    def cancel(self, key: Key) -> None:
        self._deadlines.pop(key, None)

    def next_deadline(self) -> float | None:
        """The time at which to call `due` again: never later than the first deadline."""
        for _ in range(_GIVEN_UP_MAX):
            if not self._heap:
                return None
            queued_at, _, key = self._heap[0]
            is_outdated = self._queued_at.get(key) != queued_at  # it has an earlier entry
            if not is_outdated and key in self._deadlines:
                break
            heapq.heappop(self._heap)
            if not is_outdated:
                del self._queued_at[key]
        return self._heap[0][0] if self._heap else None

    def due(self, now: float) -> Iterator[Key]:
        """Remove and return the keys whose deadline has passed, the earliest first.

        This includes deadlines that are scheduled during the iteration.
        """
        return (key for key in self.look(now) if key is not None)

    def look(self, now: float) -> Iterator[Key | None]:
        """Like `due`, for callers that yield to the event loop in between.

        Returns None for each heap entry whose deadline was moved or cancelled, as there may be as
        many of these as keys. Keys that the caller does not take stay scheduled.
        """
        while self._heap and self._heap[0][0] <= now:
            yield self._take_first()

    def _take_first(self) -> Key | None:
        queued_at, _, key = heapq.heappop(self._heap)
        if self._queued_at.get(key) != queued_at:
            return None  # the key has an earlier entry
        del self._queued_at[key]
        deadline = self._deadlines.get(key)
        if deadline is None:
            return None
        if deadline > queued_at:
            self._push(key, deadline)
            return None
        del self._deadlines[key]
        return key

    def _push(self, key: Key, deadline: float) -> None:
        self._sequence += 1
        self._queued_at[key] = deadline
        heapq.heappush(self._heap, (deadline, self._sequence, key))
