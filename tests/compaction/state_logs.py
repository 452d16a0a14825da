"""Logs of coordinators that are cleaned again and again while they are written."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from compaction.promises import CONFIG, RETENTION_MS, clean
from compaction.random_logs import RandomLog
from drumlin.clock import ManualClock
from drumlin.storage.log.partition_log import PartitionLog
from storage.samples import IN_MEMORY, NOW_MS, create, open_sole_logs


def check_cleanings(
    seed: int,
    write: Callable[[PartitionLog, random.Random, int], None],
    said: Callable[[PartitionLog], Any],
) -> None:
    """What a log says must not change by a cleaning; `write` appends, and is given a number."""
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as folder:
        clock = ManualClock(NOW_MS)
        logs = open_sole_logs(Path(folder), config=CONFIG, clock=clock)
        world = RandomLog(logs, create(logs, CONFIG), seed)
        log, removed = world.log, 0
        for number in range(300):
            write(log, chance, number)
            if chance.random() < 0.05:
                log.roll(NOW_MS)
                before, size = said(log), log.size_bytes
                clean(world)
                assert said(log) == before
                assert before
                removed += size > log.size_bytes
                clock.advance_ms(chance.choice([0, RETENTION_MS + 1]))
        assert removed > 3
        logs.abandon()
