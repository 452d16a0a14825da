"""Which old segments a log lets go: by age, by size, by its log start offset. Pure decisions."""

from __future__ import annotations

from collections.abc import Sequence

from drumlin.config.topic import LogConfig
from drumlin.storage.segment import Segment

_UNLIMITED = -1


def deletable_segments(
    segments: Sequence[Segment],
    config: LogConfig,
    log_start_offset: int,
    end_offset: int,
    now_ms: int,
) -> list[Segment]:
    """The oldest segments that may go, in order; maybe all of them, the active one included.

    Only whole segments below `end_offset`, which readers can see, may go. Age and size count
    where the cleanup policy says delete; what lies before the log start offset goes anyway.
    """
    deletes = "delete" in config.cleanup_policy
    retention_ms = config.retention_ms if deletes else _UNLIMITED
    excess_bytes = 0
    if deletes and config.retention_bytes != _UNLIMITED:
        excess_bytes = sum(segment.size for segment in segments) - config.retention_bytes
    gone = []
    for segment, following in zip(segments, [*segments[1:], None], strict=True):
        segment_end = following.base_offset if following else end_offset
        if segment_end > end_offset or (following is None and segment.size == 0):
            break
        is_before_start = following is not None and segment_end <= log_start_offset
        is_excess = excess_bytes > 0 and excess_bytes >= segment.size
        if not (is_before_start or is_excess or is_expired(segment, retention_ms, now_ms)):
            break
        excess_bytes -= segment.size
        gone.append(segment)
    return gone


def is_expired(segment: Segment, retention_ms: int, now_ms: int) -> bool:
    """Whether the youngest record is too old; without timestamps the file's own time counts."""
    if retention_ms == _UNLIMITED:
        return False
    youngest_ms = segment.largest_timestamp.timestamp
    if youngest_ms < 0:
        youngest_ms = segment.modified_ms()
    return now_ms - youngest_ms > retention_ms
