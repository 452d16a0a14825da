"""Moments that can be stored, and the time elapsed between two, if known. Pure, except for `now`.

A wall clock may be set back, and the clocks of two machines differ. So a moment also has the time
since the machine's boot, which never decreases. The time between moments of two boots is unknown.
"""

from __future__ import annotations

import time
import uuid
from pathlib import Path
from typing import Final, NamedTuple, Self

from drumlin.clock import SystemClock

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_CLOCK: Final = SystemClock()
#: Replaces the boot id where there is none: then moments of two processes are not comparable.
_OF_THIS_PROCESS: Final = uuid.uuid4().hex


class Moment(NamedTuple):
    """A moment of this or another machine. Its text format is private."""

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
        """Parse the result of `str`. A moment from any other text is not comparable with others."""
        boot, _, times = text.partition("/")
        since_boot_ms, _, wall_ms = times.partition("/")
        if not (since_boot_ms.isdecimal() and wall_ms.isdecimal()):
            return cls("", 0, 0)
        return cls(boot, int(since_boot_ms), int(wall_ms))

    def __str__(self) -> str:
        return f"{self.boot}/{self.since_boot_ms}/{self.wall_ms}"

    def until_ms(self, later: Moment) -> int | None:
        """The minimum time from this moment to `later`; None: unknown.

        The time since boot may lack pauses of a virtual machine. The wall clock has them, once it
        is corrected, so the longer of both times counts.
        """
        elapsed_ms = later.since_boot_ms - self.since_boot_ms
        if self.boot != later.boot or elapsed_ms < 0:
            return None
        return max(elapsed_ms, later.wall_ms - self.wall_ms)
