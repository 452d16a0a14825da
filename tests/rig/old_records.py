"""Brokers that keep records of years ago, as long as no test wants them to be removed.

Tests write records with timestamps of their own, most of them long past. With its defaults a
broker would remove them after some minutes, in the middle of whatever test runs by then.
"""

from __future__ import annotations

from typing import Final

_A_DAY_MS: Final = str(24 * 3600 * 1000)

#: No retention before a day has passed.
KEPT: Final = {"log.retention.check.interval.ms": _A_DAY_MS}
#: The same for Apache Kafka, which looks half a minute after its start, too.
KEPT_BY_KAFKA: Final = {**KEPT, "log.initial.task.delay.ms": _A_DAY_MS}
