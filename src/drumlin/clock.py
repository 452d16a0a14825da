"""The broker's clocks, handed in wherever time matters so that tests can move it.

Two readings, never mixed: `wall_ms` is what records and retention are stamped with,
`monotonic` is what deadlines are measured with.
"""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """A source of time."""

    def wall_ms(self) -> int:
        """Milliseconds since the Unix epoch."""

    def monotonic(self) -> float:
        """Seconds that never run backwards; the zero point means nothing."""


class SystemClock:
    """The machine's clocks."""

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()


class ManualClock:
    """A clock that moves only when told: for tests and simulations."""

    def __init__(self, wall_ms: int = 1_700_000_000_000) -> None:
        self._wall_ms = wall_ms
        self._monotonic = 0.0

    def wall_ms(self) -> int:
        return self._wall_ms

    def monotonic(self) -> float:
        return self._monotonic

    def advance_ms(self, duration_ms: int) -> None:
        self._wall_ms += duration_ms
        self._monotonic += duration_ms / 1000
