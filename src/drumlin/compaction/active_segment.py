"""What an operator should know about the active segment, which is cleaned only once it is closed.

In a small topic that is all there is: nothing in it is cleaned, and no figure shows why.
"""

from __future__ import annotations

from typing import NamedTuple

from drumlin.compaction.cleanable import Cleanable
from drumlin.compaction.outline import find_cleanable, outline
from drumlin.config.topic import LogConfig
from drumlin.storage.partition_log import PartitionLog


class ActiveSegment(NamedTuple):
    """The segment that a log is written to."""

    base_offset: int
    records: int
    size: int
    #: When it is closed, by the topic's keys.
    closes: str


def active_segment(log: PartitionLog) -> ActiveSegment:
    """The active segment as it is about now. Any thread may ask."""
    active = log.segments.active
    records = max(0, log.log_end_offset - max(active.base_offset, log.log_start_offset))
    return ActiveSegment(active.base_offset, records, active.size, _closes(log.config))


def _closes(config: LogConfig) -> str:
    full = f"when it is full (segment.bytes={config.segment_bytes})"
    lag_ms = config.max_compaction_lag_ms
    if 0 < lag_ms < config.segment_ms:
        return f"{full}, or {lag_ms} ms after its first record (max.compaction.lag.ms)"
    return f"{full}, or with a record {config.segment_ms} ms after its first (segment.ms)"


def why_nothing(log: PartitionLog, now_ms: int) -> str:
    """Why a cleaning has nothing to do. Reads the log's files.

    Raises:
        OSError, KafkaError: they can't be read.
    """
    found: Cleanable = find_cleanable(log, outline(log), now_ms)
    active = active_segment(log)
    if found.first_uncleanable_offset < active.base_offset:
        return "what is dirty must wait for min.compaction.lag.ms, or for a transaction to end"
    if not active.records:
        return "all of it is clean" if found.clean_bytes else "it has no records"
    rest = "all else is clean; " if found.clean_bytes else ""
    records = "1 record is" if active.records == 1 else f"{active.records} records are"
    return f"{rest}{records} in the active segment, which closes {active.closes}, or by --roll"
