"""The end of an iteration: a time without records, which begins with the first assignment. Pure.

A group may take a while to assign partitions to a new member. That while does not count as idle:
a consumer without an assignment, not even an empty one, waits longer.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from drumlin.peer.retry import Deadline


class IdleDeadline(Deadline):
    """The end of one wait for records.

    The wait begins at once if there has been an assignment, otherwise with the first one. It begins
    again with each assignment that adds partitions.
    """

    __slots__ = ("_has_assignment", "_has_begun", "_timeout_ms")

    def __init__(
        self,
        timeout_ms: float,
        join_timeout_ms: float,
        has_assignment: Callable[[], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """
        Args:
            timeout_ms: the time without records.
            join_timeout_ms: the time that the first assignment may take.
            has_assignment: whether there has been one.
            clock: the time in seconds.
        """
        super().__init__(join_timeout_ms + timeout_ms, clock)
        self._timeout_ms = timeout_ms
        self._has_assignment = has_assignment
        self._has_begun = False

    def begin(self) -> None:
        """Begin the wait again, as partitions were assigned."""
        self._has_begun = True
        self._at = self._clock() + self._timeout_ms / 1000

    @property
    def remaining_s(self) -> float:
        if not self._has_begun and self._has_assignment():
            self.begin()
        return super().remaining_s

    @property
    def is_over(self) -> bool:
        return self.remaining_s <= 0
