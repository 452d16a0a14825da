"""Reads, in threads, what rounds on the loop will ask of files that rest since the start.

A round that met a file which nobody has looked at would wait for the device, and the loop with it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from functools import partial

from drumlin.storage.log.partition_log import PartitionLog
from drumlin.storage.log.retention import deletable_segments
from drumlin.wire.error_codes import KafkaError


def prepare_retention(logs: Iterable[PartitionLog], now_ms: int) -> None:
    """What says which segments are too old, or too many."""

    def look(log: PartitionLog) -> None:
        start_offset, end_offset = log.log_start_offset, log.log_end_offset
        deletable_segments(log.segments, log.config, start_offset, end_offset, now_ms)

    for log in logs:
        if log.log_directory.is_readable:
            with contextlib.suppress(KafkaError):  # said where the dir failed
                log.look(partial(look, log))


def prepare_rolls(logs: Iterable[PartitionLog]) -> None:
    """The time of the first record in each active segment of a compacted log."""

    def look(log: PartitionLog) -> None:
        _ = log.segments.active.first_timestamp

    for log in logs:
        if log.config.is_compacted and log.log_directory.is_readable:
            with contextlib.suppress(KafkaError):
                log.look(partial(look, log))
