"""A timer for the deadlines of groups; many passed deadlines take several turns of the loop.

Owns the time of the next check. Does not interpret deadlines.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from drumlin.clock import Clock
from drumlin.coordination.deadlines import DeadlineQueue
from drumlin.coordination.groups.every_kind.states import Deadline
from drumlin.turns import end_of_new_turn


class DeadlineAlarm:
    """A timer for the next deadline, active from `start` to `stop`.

    Args:
        deadlines: the deadlines of all groups.
        clock: monotonic time.
        tell(deadline): called when the deadline has passed.
    """

    def __init__(
        self,
        deadlines: DeadlineQueue[Deadline],
        clock: Clock,
        tell: Callable[[Deadline], None],
    ) -> None:
        self._deadlines, self._clock, self._tell = deadlines, clock, tell
        self._handle: asyncio.TimerHandle | None = None
        self._is_on = False

    def start(self) -> None:
        self._is_on = True
        self.set()

    def stop(self) -> None:
        self._is_on = False
        if self._handle is not None:
            self._handle.cancel()

    def set(self) -> None:
        """Schedule `wake` for the next deadline; called after deadlines have been set."""
        deadline = self._deadlines.next_deadline()
        if deadline is None or not self._is_on:
            return
        loop = asyncio.get_running_loop()
        when = loop.time() + max(deadline - self._clock.monotonic(), 0)
        if self._handle is not None:
            if self._handle.when() <= when and not self._handle.cancelled():
                return
            self._handle.cancel()
        self._handle = loop.call_at(when, self.wake)

    def wake(self) -> bool:
        """Expire deadlines that have passed; returns whether some are left for the next call.

        A heartbeat is in time if it arrives before its deadline is checked.
        """
        self._handle = None
        try:
            return not self._tell_due()
        finally:  # an exception in one group must not stop the timer
            self.set()  # for the next turn, if more deadlines are due

    def _tell_due(self) -> bool:
        """Expire as many deadlines as fit into a turn; the rest stay due. Returns whether none is
        left.
        """
        ends_at = end_of_new_turn()
        for deadline in self._deadlines.look(self._clock.monotonic()):
            if deadline is not None:
                self._tell(deadline)
            if time.monotonic() >= ends_at:
                return False
        return True
