"""Preparation of rounds over all logs: reads, in a thread, what the round needs from idle files.

A round runs on the loop, which would block if the round had to read a file for the first time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from functools import partial

from drumlin.storage.log.partition_log import PartitionLog
from drumlin.storage.log.retention import deletable_segments
from drumlin.wire.error_codes import KafkaError


def prepare_retention(logs: Iterable[PartitionLog], now_ms: int) -> None:
    """Read the timestamps that decide which segments have expired."""

    def look(log: PartitionLog) -> None:
        start_offset, end_offset = log.log_start_offset, log.log_end_offset
        deletable_segments(log.segments, log.config, start_offset, end_offset, now_ms)

    for log in logs:
        if log.log_directory.is_readable:
            with contextlib.suppress(KafkaError):  # logged where the log dir failed
                log.look(partial(look, log))


def prepare_rolls(logs: Iterable[PartitionLog]) -> None:
    """Read the first timestamp in the active segment of each compacted log."""

    def look(log: PartitionLog) -> None:
        _ = log.segments.active.first_timestamp

    for log in logs:
        if log.config.is_compacted and log.log_directory.is_readable:
            with contextlib.suppress(KafkaError):
                log.look(partial(look, log))
