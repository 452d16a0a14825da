"""The user's side of a membership: which partitions it has, and whether it is busy with a duty.

Both group protocols share this; each decides which duty is due. Pure; times are seconds of the
caller's clock.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from drumlin.client.consumer.membership.membership import NO_PARTITIONS, Duty, Partitions


class UsersSide(ABC):
    """The user's thread as its membership sees it."""

    def __init__(self, max_poll_interval_s: float, now: float) -> None:
        self._owned: Partitions = NO_PARTITIONS
        self._has_lost = False  # what it owns belongs to other members now
        self._is_on_duty = False
        self._max_poll_interval_s = max_poll_interval_s
        self._last_poll = now
        self._is_polling = False

    @property
    def owned(self) -> Partitions:
        """The partitions that the user has."""
        return self._owned

    def polled(self, now: float) -> None:
        """The user's thread is in `poll`, and so in no duty: an interrupt may have ended one."""
        self._last_poll = now
        self._is_polling = True
        self._is_on_duty = False

    def poll_ended(self, now: float) -> None:
        """... and has left it."""
        self._last_poll = now
        self._is_polling = False

    @property
    def _idle_at(self) -> float:
        """The time from which on the user's thread counts as no longer polling."""
        return float("inf") if self._is_polling else self._last_poll + self._max_poll_interval_s

    @property
    @abstractmethod
    def duty(self) -> Duty | None:
        """The callback that the user's thread must run before the membership goes on."""

    def begin_duty(self) -> Duty | None:
        """The user's thread begins with `duty`: what it has is not certain until it is done."""
        duty = self.duty
        self._is_on_duty = duty is not None
        return duty
