"""Reports the active segment to operators, as this segment is not cleaned before it is closed.

A small topic may have no other segment, so nothing is cleaned. The report shows why.
"""

from __future__ import annotations

from typing import NamedTuple

from drumlin.config.topic import LogConfig
from drumlin.storage.log.partition_log import PartitionLog


class ActiveSegment(NamedTuple):
    """The segment to which a log appends."""

    base_offset: int
    records: int
    size: int
    #: When the segment is closed according to the topic's configuration, in words.
    closes: str


def active_segment(log: PartitionLog) -> ActiveSegment:
    """The active segment of a log at this moment. Thread-safe."""
    active = log.segments.active
    records = max(0, log.log_end_offset - max(active.base_offset, log.log_start_offset))
    return ActiveSegment(active.base_offset, records, active.size, _closes(log.config))


def _closes(config: LogConfig) -> str:
    full = f"when it is full (segment.bytes={config.segment_bytes})"
    lag_ms = config.max_compaction_lag_ms
    if 0 < lag_ms < config.segment_ms:
        return f"{full}, or {lag_ms} ms after its first record (max.compaction.lag.ms)"
    return f"{full}, or with a record {config.segment_ms} ms after its first (segment.ms)"
