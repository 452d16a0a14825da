"""When the user's thread was last in `poll`, and so how long a member may count as alive."""

from __future__ import annotations


class Polling:
    """Pure; times are seconds of whatever clock the caller has."""

    def __init__(self, max_interval_s: float, now: float) -> None:
        self._max_interval_s = max_interval_s
        self._last_poll = now
        self._goes_on = False

    def begin(self, now: float) -> None:
        self._goes_on = True
        self._last_poll = now

    def end(self, now: float) -> None:
        self._goes_on = False
        self._last_poll = now

    @property
    def idle_at(self) -> float:
        """From when on nobody can be said to poll any more."""
        return float("inf") if self._goes_on else self._last_poll + self._max_interval_s
