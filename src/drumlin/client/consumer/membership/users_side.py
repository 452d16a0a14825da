"""The user's side of a membership: the partitions that it owns, and the duty that it runs.

Both group protocols share this; each decides which duty is due. Pure; times are seconds of the
caller's clock.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from drumlin.client.consumer.membership.membership import NO_PARTITIONS, Duty, Partitions


class UsersSide(ABC):
    """The state of the user's thread, for its membership."""

    def __init__(self, max_poll_interval_s: float, now: float) -> None:
        self._owned: Partitions = NO_PARTITIONS
        #: Whether this member has ever had an assignment, even an empty one.
        self.has_assignment = False
        self._has_lost = False  # the owned partitions may belong to other members now
        self._is_on_duty = False
        self._max_poll_interval_s = max_poll_interval_s
        self._last_poll = now
        self._is_polling = False

    @property
    def owned(self) -> Partitions:
        """The partitions that the user's thread has taken over and not given up."""
        return self._owned

    def polled(self, now: float) -> None:
        """The user's thread has entered `poll`: if it still ran a duty, an interrupt ended that."""
        self._last_poll = now
        self._is_polling = True
        self._is_on_duty = False

    def poll_ended(self, now: float) -> None:
        """The user's thread has left `poll`."""
        self._last_poll = now
        self._is_polling = False

    @property
    def _idle_at(self) -> float:
        """The time at which max_poll_interval_ms is exceeded."""
        return float("inf") if self._is_polling else self._last_poll + self._max_poll_interval_s

    @property
    @abstractmethod
    def duty(self) -> Duty | None:
        """The callback that the user's thread must run before the membership continues."""

    def begin_duty(self) -> Duty | None:
        """The user's thread begins `duty`: its partitions are uncertain until `duty_done`."""
        duty = self.duty
        self._is_on_duty = duty is not None
        return duty
