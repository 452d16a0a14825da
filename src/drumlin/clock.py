"""Clocks, which are handed in wherever time matters, so that tests can control it.

There are three readings, never mixed: `wall_ms` for timestamps of records, `monotonic` for
deadlines, and `expiry` for the age of removable data.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

_log = logging.getLogger(__name__)

#: A clock that is slewed, as by NTP, moves less than this in an hour.
_JUMP_MS: Final = 60_000
_HOUR_S: Final = 3600.0
#: If two readings that belong together are further apart, the process was suspended in between.
_TOGETHER_S: Final = 1.0


class Clock(Protocol):
    """A source of time."""

    @property
    def expiry(self) -> ExpiryTime:
        """The time used for retention: of records, tombstones, committed offsets, producer ids."""

    def wall_ms(self) -> int:
        """Milliseconds since the Unix epoch."""

    def monotonic(self) -> float:
        """Seconds that never go back, from an arbitrary zero point."""


class SystemClock:
    """The machine's clocks."""

    def __init__(self) -> None:
        self.expiry = ExpiryTime(self.wall_ms, _since_boot)

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()


class ManualClock:
    """A clock that only `advance_ms` moves, for tests and simulations."""

    def __init__(self, wall_ms: int = 1_700_000_000_000) -> None:
        self._wall_ms = wall_ms
        self._monotonic = 0.0
        self.expiry = ExpiryTime(self.wall_ms, self.monotonic)

    def wall_ms(self) -> int:
        return self._wall_ms

    def monotonic(self) -> float:
        return self._monotonic

    def advance_ms(self, duration_ms: int) -> None:
        self._wall_ms += duration_ms
        self._monotonic += duration_ms / 1000


class Doubt(NamedTuple):
    """A jump of the wall clock that is not trusted yet."""

    ahead_ms: int  # by which the wall clock is ahead of the trusted time
    remaining_s: float  # until the jump is trusted, if there is no other


class ExpiryTime:
    """The wall clock without sudden jumps ahead, used for retention.

    A wall clock that is set ahead makes all data old at once: within seconds, all replicas would
    remove everything that has a retention time. So a jump of more than a minute is trusted only
    after an hour, or when `trust` is called; until then the old time continues. A jump back removes
    nothing, and is trusted at once, as it may be the end of a jump ahead.

    The wall clock is trusted initially, as nothing is known about the time before. Thread-safe;
    every reading compares the clocks, so that no caller acts on an unnoticed jump.
    """

    def __init__(
        self, read_wall_ms: Callable[[], int], read_elapsed_s: Callable[[], float]
    ) -> None:
        """`read_elapsed_s` must read a clock that continues while the machine is suspended."""
        self._read_wall_ms, self._read_elapsed_s = read_wall_ms, read_elapsed_s
        self._lock = threading.Lock()
        # The difference between wall clock and elapsed time, which is constant except for
        # corrections.
        wall_ms, elapsed_s = self._read()
        self._trusted_ms = self._doubted_ms = wall_ms - int(elapsed_s * 1000)
        self._trusted_since_s = self._doubted_since_s = elapsed_s
        self._is_doubted = False

    def now_ms(self) -> int:
        """The wall time or, after a jump that is not trusted, the time without the jump."""
        with self._lock:
            wall_ms, elapsed_s = self._follow()
            return self._trusted_ms + int(elapsed_s * 1000) if self._is_doubted else wall_ms

    @property
    def doubt(self) -> Doubt | None:
        """The jump that `now_ms` leaves out; None if `now_ms` is the wall time."""
        with self._lock:
            _, elapsed_s = self._follow()
            if not self._is_doubted:
                return None
            remaining_s = self._doubted_since_s + _HOUR_S - elapsed_s
            return Doubt(self._doubted_ms - self._trusted_ms, remaining_s)

    def trust(self) -> None:
        """Trust the wall clock, as an operator has confirmed it."""
        with self._lock:
            wall_ms, elapsed_s = self._follow()
            if self._is_doubted:
                self._take(wall_ms - int(elapsed_s * 1000), elapsed_s)
                _log.warning("An operator says that the wall clock is right: it counts.")

    def _follow(self) -> tuple[int, float]:
        """Read both clocks, and trust or doubt the wall clock; returns both readings."""
        wall_ms, elapsed_s = self._read()
        offset_ms = wall_ms - int(elapsed_s * 1000)
        moved_ms = offset_ms - self._trusted_ms
        if self._is_doubted:
            self._follow_doubted(offset_ms, moved_ms, elapsed_s)
        elif moved_ms > _JUMP_MS:
            self._doubt(offset_ms, elapsed_s)
        elif moved_ms < -_JUMP_MS:
            _log.warning("The wall clock has gone back by %d s.", -moved_ms // 1000)
            self._take(offset_ms, elapsed_s)
        elif elapsed_s - self._trusted_since_s >= _HOUR_S:
            self._take(offset_ms, elapsed_s)  # small corrections add up
        return wall_ms, elapsed_s

    def _follow_doubted(self, offset_ms: int, moved_ms: int, elapsed_s: float) -> None:
        if moved_ms <= _JUMP_MS:
            _log.warning("The wall clock has gone back to where it was expected, and counts again.")
            self._is_doubted = False
            if moved_ms < -_JUMP_MS:
                self._take(offset_ms, elapsed_s)
        elif abs(offset_ms - self._doubted_ms) > _JUMP_MS:
            self._doubt(offset_ms, elapsed_s)
        elif elapsed_s - self._doubted_since_s >= _HOUR_S:
            _log.warning("The wall clock has stood by its new time for an hour: it counts.")
            self._take(offset_ms, elapsed_s)

    def _doubt(self, offset_ms: int, elapsed_s: float) -> None:
        self._is_doubted = True
        self._doubted_ms, self._doubted_since_s = offset_ms, elapsed_s
        _log.warning(
            "The wall clock has jumped ahead: it is %d s later than it should be by the time that "
            "has passed. What is removed by its age (records, tombstones, committed offsets, ids "
            "of producers and of transactions) goes by the time without the jump for an hour, or "
            "until `drumlin clock trust` says that the clock is right.",
            (offset_ms - self._trusted_ms) // 1000,
        )

    def _take(self, offset_ms: int, elapsed_s: float) -> None:
        self._trusted_ms, self._trusted_since_s = offset_ms, elapsed_s
        self._is_doubted = False

    def _read(self) -> tuple[int, float]:
        while True:
            before_s = self._read_elapsed_s()
            wall_ms = self._read_wall_ms()
            elapsed_s = self._read_elapsed_s()
            if elapsed_s - before_s < _TOGETHER_S:
                return wall_ms, elapsed_s


def _since_boot() -> float:
    """Seconds since boot, including the time that the machine was suspended."""
    try:
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    except OSError:  # some sandboxes do not have this clock
        return time.monotonic()
