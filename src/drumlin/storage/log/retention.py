"""The choice of segments to delete, by age, size and log start offset. Deletes nothing itself."""

from __future__ import annotations

from drumlin.config.topic import LogConfig
from drumlin.storage.segment.segment import Segment
from drumlin.storage.segment.segment_list import SegmentList

_UNLIMITED = -1


def deletable_segments(
    segments: SegmentList,
    config: LogConfig,
    log_start_offset: int,
    end_offset: int,
    now_ms: int,
    *,
    most: int | None = None,
    may_block: bool = True,
    may_be_active: bool = True,
) -> list[Segment]:
    """The oldest segments to delete, in order; maybe all of them, including the active one.

    Only whole segments below `end_offset`, which consumers can read, are deleted. Age and size
    matter with cleanup.policy=delete; segments below the log start offset are always deleted.

    Args:
        most: the maximum number (default: all).
        may_block: whether unknown timestamps may be read from the files; if not, a segment without
            known timestamps has not expired.
    """
    deletes = "delete" in config.cleanup_policy
    retention_ms = config.retention_ms if deletes else _UNLIMITED
    excess_bytes = 0
    if deletes and config.retention_bytes != _UNLIMITED:
        excess_bytes = segments.size_bytes - config.retention_bytes
    each = segments.snapshot()
    gone: list[Segment] = []
    for number in range(len(each) if most is None else min(most, len(each))):
        segment, is_active = each[number], number + 1 == len(each)
        segment_end = end_offset if is_active else each[number + 1].base_offset
        if segment_end > end_offset or (is_active and not (may_be_active and segment.size)):
            break
        is_before_start = not is_active and segment_end <= log_start_offset
        is_excess = excess_bytes > 0 and excess_bytes >= segment.size
        if not (
            is_before_start
            or is_excess
            or (
                (may_block or segment.is_largest_timestamp_known)
                and is_expired(segment, retention_ms, now_ms)
            )
        ):
            break
        excess_bytes -= segment.size
        gone.append(segment)
    return gone


def is_expired(segment: Segment, retention_ms: int, now_ms: int) -> bool:
    """Whether the newest record is too old; without timestamps the file's time counts."""
    if retention_ms == _UNLIMITED:
        return False
    youngest_ms = segment.largest_timestamp.timestamp
    if youngest_ms < 0:
        youngest_ms = segment.modified_ms()
    return now_ms - youngest_ms > retention_ms
