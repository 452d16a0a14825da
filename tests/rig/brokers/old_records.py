"""Brokers that keep records of years ago, as long as no test wants them to be removed.

Tests write records with timestamps of their own, most of them long past. With its defaults a
broker would remove them half a minute after its start, and again and again after that, in the
middle of whatever test runs by then.
"""

from __future__ import annotations

from typing import Final

_A_DAY_MS: Final = str(24 * 3600 * 1000)

#: No retention before a day has passed.
KEPT: Final = {
    "log.retention.check.interval.ms": _A_DAY_MS,
    "log.initial.task.delay.ms": _A_DAY_MS,
}
