"""Looks at the deadlines of groups when they have passed, in turns of the loop.

It owns when to look next. What a deadline that has passed means is not known here.
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
    """Goes off when the next deadline passes, from `start` to `stop`.

    Handed in:
        deadlines: of all groups.
        clock: monotonic time.
        tell(deadline): is called once it has passed.
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
        """Have `wake` called when the next deadline passes; to be called after one was set."""
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
        """Expire deadlines that have passed; returns whether more are left for the next call.

        A heartbeat that arrives before its deadline is looked at was in time.
        """
        self._handle = None
        try:
            return not self._tell_due()
        finally:  # whatever is wrong with one group, the others are woken
            self.set()  # for the next turn, if more of them are due

    def _tell_due(self) -> bool:
        """Tell as many as fit into a turn; returns whether these were all. Others stay due."""
        ends_at = end_of_new_turn()
        for deadline in self._deadlines.look(self._clock.monotonic()):
            if deadline is not None:
                self._tell(deadline)
            if time.monotonic() >= ends_at:
                return False
        return True
