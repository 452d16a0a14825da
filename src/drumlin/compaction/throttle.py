"""One limit of bytes per second for all cleaner threads together. Thread-safe."""

from __future__ import annotations

import threading

from drumlin.clock import Clock

#: Unused time is saved up for no longer than this, so that a pause is not followed by a burst.
_SAVED_S = 0.3


class Throttle:
    """Callers report what they read and write, and wait until it is within the limit."""

    def __init__(self, bytes_per_second: float, clock: Clock, stopping: threading.Event) -> None:
        self.bytes_per_second = bytes_per_second
        self._clock = clock
        self._stopping = stopping
        self._lock = threading.Lock()
        self._paid_until = clock.monotonic()

    def spend(self, size: int) -> None:
        """Count bytes that were read or written; returns once they are within the limit.

        Does not wait when the pool stops.
        """
        with self._lock:
            now = self._clock.monotonic()
            start = max(self._paid_until, now - _SAVED_S)
            self._paid_until = start + size / self.bytes_per_second
            wait_s = self._paid_until - now
        if wait_s > 0:
            self._stopping.wait(wait_s)
