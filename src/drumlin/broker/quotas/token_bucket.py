"""A token bucket, by the rules of Kafka's `TokenBucket` (KIP-599). Pure.

Unlike a sampled rate it forgets a burst as fast as the quota allows.
"""

from __future__ import annotations

from drumlin.broker.quotas.rate import Window, rounded_ms
from drumlin.broker.quotas.untold import Used


class TokenBucket:
    """The tokens that one client has left; if they are below 0, it has to wait."""

    __slots__ = ("_filled_ms", "_tokens")

    def __init__(self) -> None:
        self._tokens = 0.0
        self._filled_ms: int | None = None  # full at first

    def take(self, window: Window, bound: float, count: float, now_ms: int) -> None:
        """Take tokens, even if there are too few."""
        self._fill(window, bound, now_ms)
        self._tokens -= count

    def hear(self, window: Window, used: Used, now_ms: int) -> None:
        """Count what was used at another broker."""
        self.take(window, used.bound, used.amount, now_ms)

    def throttle_ms(self, window: Window, bound: float, now_ms: int) -> int:
        """The time until the number of tokens is not negative."""
        self._fill(window, bound, now_ms)
        return rounded_ms(-self._tokens / bound * 1000) if self._tokens < 0 else 0

    def _fill(self, window: Window, bound: float, now_ms: int) -> None:
        burst = window.samples * window.sample_ms / 1000 * bound
        if self._filled_ms is None:
            self._tokens = burst
        else:
            gained = bound * (now_ms - self._filled_ms) / 1000
            self._tokens = min(burst, self._tokens + gained)
        self._filled_ms = now_ms
