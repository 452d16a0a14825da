"""The I/O limit of all cleaner threads together (`log.cleaner.io.max.bytes.per.second`)."""

from __future__ import annotations

import threading

from drumlin.clock import Clock

#: The longest unused time that is credited, so that a pause is not followed by a burst.
_SAVED_S = 0.3


class Throttle:
    """A limit of bytes per second: callers report reads and writes, and wait. Thread-safe."""

    def __init__(self, bytes_per_second: float, clock: Clock, stopping: threading.Event) -> None:
        self.bytes_per_second = bytes_per_second
        self._clock = clock
        self._stopping = stopping
        self._lock = threading.Lock()
        self._paid_until = clock.monotonic()

    def spend(self, size: int) -> None:
        """Count bytes that were read or written, and wait until the rate is within the limit.

        Returns at once when the pool stops.
        """
        with self._lock:
            now = self._clock.monotonic()
            start = max(self._paid_until, now - _SAVED_S)
            self._paid_until = start + size / self.bytes_per_second
            wait_s = self._paid_until - now
        if wait_s > 0:
            self._stopping.wait(wait_s)
