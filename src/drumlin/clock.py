"""The broker's clocks, handed in wherever time matters so that tests can move it.

Three readings, never mixed: `wall_ms` is what records are stamped with, `monotonic` is what
deadlines are measured with, and by `expiry` it is told what is old enough to be removed.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

_log = logging.getLogger(__name__)

#: A clock that is corrected little by little moves less than this in an hour.
_JUMP_MS: Final = 60_000
_HOUR_S: Final = 3600.0
#: More between two readings that belong together, and the process was stopped.
_TOGETHER_S: Final = 1.0


class Clock(Protocol):
    """A source of time."""

    @property
    def expiry(self) -> ExpiryTime:
        """By which the age of what may be removed is told."""

    def wall_ms(self) -> int:
        """Milliseconds since the Unix epoch."""

    def monotonic(self) -> float:
        """Seconds that never run backwards; the zero point means nothing."""


class SystemClock:
    """The machine's clocks."""

    def __init__(self) -> None:
        self.expiry = ExpiryTime(self.wall_ms, _since_boot)

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()


class ManualClock:
    """A clock that moves only when told: for tests and simulations."""

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
    """A wall clock that is not believed yet."""

    ahead_ms: int  # of the time that is believed
    remaining_s: float  # until it is, if it stays where it is


class ExpiryTime:
    """The wall clock, believed only where it goes on as the time that passes does.

    A wall clock that is set ahead makes everything old at once: all that has a retention would go,
    on all replicas, within seconds. So a jump of more than a minute counts once the new time has
    stood for an hour, or `believe` is called. Meanwhile the old time goes on. A jump back removes
    nothing, and is believed at once; it may as well be the end of one ahead.

    What was before it begins is unknown: then the wall clock is believed. Any thread may ask; every
    reading follows the clocks, so that nobody removes anything by a jump unseen.
    """

    def __init__(
        self, read_wall_ms: Callable[[], int], read_elapsed_s: Callable[[], float]
    ) -> None:
        """`read_elapsed_s`: a clock that goes on while the machine is suspended."""
        self._read_wall_ms, self._read_elapsed_s = read_wall_ms, read_elapsed_s
        self._lock = threading.Lock()
        # What the wall clock is ahead of the time that passes: constant, but for corrections.
        wall_ms, elapsed_s = self._read()
        self._believed_ms = self._doubted_ms = wall_ms - int(elapsed_s * 1000)
        self._believed_since_s = self._doubted_since_s = elapsed_s
        self._is_doubted = False

    def now_ms(self) -> int:
        """The wall time; while that is doubted, what it would be without the jump."""
        with self._lock:
            wall_ms, elapsed_s = self._follow()
            return self._believed_ms + int(elapsed_s * 1000) if self._is_doubted else wall_ms

    @property
    def doubt(self) -> Doubt | None:
        """Why `now_ms` is not the wall time, if it is not."""
        with self._lock:
            _, elapsed_s = self._follow()
            if not self._is_doubted:
                return None
            remaining_s = self._doubted_since_s + _HOUR_S - elapsed_s
            return Doubt(self._doubted_ms - self._believed_ms, remaining_s)

    def believe(self) -> None:
        """The wall clock is right, says somebody who knows."""
        with self._lock:
            wall_ms, elapsed_s = self._follow()
            if self._is_doubted:
                self._take(wall_ms - int(elapsed_s * 1000), elapsed_s)
                _log.warning("An operator says that the wall clock is right: it counts.")

    def _follow(self) -> tuple[int, float]:
        """Look at both clocks: the wall time, and the time that has passed."""
        wall_ms, elapsed_s = self._read()
        offset_ms = wall_ms - int(elapsed_s * 1000)
        moved_ms = offset_ms - self._believed_ms
        if self._is_doubted:
            self._follow_doubted(offset_ms, moved_ms, elapsed_s)
        elif moved_ms > _JUMP_MS:
            self._doubt(offset_ms, elapsed_s)
        elif moved_ms < -_JUMP_MS:
            _log.warning("The wall clock has gone back by %d s.", -moved_ms // 1000)
            self._take(offset_ms, elapsed_s)
        elif elapsed_s - self._believed_since_s >= _HOUR_S:
            self._take(offset_ms, elapsed_s)  # little by little
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
            (offset_ms - self._believed_ms) // 1000,
        )

    def _take(self, offset_ms: int, elapsed_s: float) -> None:
        self._believed_ms, self._believed_since_s = offset_ms, elapsed_s
        self._is_doubted = False

    def _read(self) -> tuple[int, float]:
        while True:
            before_s = self._read_elapsed_s()
            wall_ms = self._read_wall_ms()
            elapsed_s = self._read_elapsed_s()
            if elapsed_s - before_s < _TOGETHER_S:
                return wall_ms, elapsed_s


def _since_boot() -> float:
    """Seconds that go on while the machine is suspended, which `time.monotonic` does not count."""
    try:
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    except OSError:  # some sandboxes have no such clock
        return time.monotonic()
