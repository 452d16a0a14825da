"""Moments whose distance from now is known, or known not to be known. Pure, except for `now`.

A wall clock may be set back, and two machines have two of them. So a moment is also the time since
the machine's boot, which only goes forward. The distance between moments of two boots is unknown.
"""

from __future__ import annotations

import time
import uuid
from pathlib import Path
from typing import Final, NamedTuple, Self

from drumlin.clock import SystemClock

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_CLOCK: Final = SystemClock()
#: Where the machine does not name its boots, the moments of two processes do not compare.
_OF_THIS_PROCESS: Final = uuid.uuid4().hex


class Moment(NamedTuple):
    """A moment of this or of another machine. As text it has no format that others may rely on."""

    boot: str
    since_boot_ms: int
    wall_ms: int

    @classmethod
    def now(cls) -> Self:
        try:
            boot = _BOOT_ID.read_text().strip()
            since_boot_s = time.clock_gettime(time.CLOCK_BOOTTIME)
        except (OSError, AttributeError):
            boot, since_boot_s = _OF_THIS_PROCESS, _CLOCK.monotonic()
        return cls(boot, int(since_boot_s * 1000), _CLOCK.wall_ms())

    @classmethod
    def parse(cls, text: str) -> Self:
        """The moment that `str` has written; one that does not compare if it is no such text."""
        boot, _, times = text.partition("/")
        since_boot_ms, _, wall_ms = times.partition("/")
        if not (since_boot_ms.isdecimal() and wall_ms.isdecimal()):
            return cls("", 0, 0)
        return cls(boot, int(since_boot_ms), int(wall_ms))

    def __str__(self) -> str:
        return f"{self.boot}/{self.since_boot_ms}/{self.wall_ms}"

    def until_ms(self, later: Moment) -> int | None:
        """How long before `later` this was, at least; None if nobody knows.

        A machine that is paused as a whole may not count that time. Its wall clock does, once it is
        set right, so that the longer of both times counts.
        """
        elapsed_ms = later.since_boot_ms - self.since_boot_ms
        if self.boot != later.boot or elapsed_ms < 0:
            return None
        return max(elapsed_ms, later.wall_ms - self.wall_ms)
