"""Disks that fail, return and fail again: what is on them is there again, and nothing is lost.

As long as one fails, nothing is read from it or written to it; then the log is loaded again, and
what was being fetched beside it is forgotten.
"""

from __future__ import annotations

import random
from functools import partial
from typing import TYPE_CHECKING

from replication.simulation.world.faults import Fault

if TYPE_CHECKING:
    from replication.simulation.processes.process import BrokerProcess

_KIND = "disk failure"
_AGAIN_MOST_MS = 400


def disk_failures(seed: int, until_ms: int) -> list[Fault]:
    """In some runs disks are bad; drawn by itself, so that in others all is as it was."""
    source = random.Random(f"disks {seed}")
    if source.random() < 0.65:
        return []
    times = [source.randrange(600, until_ms) for _ in range(source.choice((2, 6, 12)))]
    return [
        Fault(at_ms, _KIND, source.random(), source.random(), source.random()) for at_ms in times
    ]


def fail_disk(process: BrokerProcess, fault: Fault, until_ms: int) -> None:
    """It returns, and mostly fails once more, soon after."""
    schedule = process.world.schedule
    again_ms = until_ms + 1 + int(fault.other * _AGAIN_MOST_MS)
    schedule.note("the disk of {} fails", process)
    _fail(process, until_ms)
    if fault.extent < 0.7:
        after_ms = again_ms + (until_ms - schedule.now_ms) // 2
        schedule.at(again_ms, partial(_fail, process, after_ms))


def _fail(process: BrokerProcess, until_ms: int) -> None:
    process.disk_fails_until_ms = until_ms
    process.world.schedule.at(until_ms, partial(_return, process))


def _return(process: BrokerProcess) -> None:
    process.note("the disk is back")
    process.log.truncations += 1  # all that was known of its files is new
