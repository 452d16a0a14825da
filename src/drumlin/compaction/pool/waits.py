"""The reason why a requested cleaning has nothing to do, in words for operators."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Final

from drumlin.compaction.dirty.active_segment import active_segment
from drumlin.compaction.dirty.cleanable import Cleanable
from drumlin.compaction.dirty.outline import Outline, find_cleanable, outline
from drumlin.storage.log.partition_log import PartitionLog
from drumlin.storage.segment.segment import Segment

#: Times from here on, such as `NO_HORIZON`, are shown without a date.
_YEAR_10000_MS: Final = 253_402_300_800_000


def reason_for_no_cleaning(log: PartitionLog, now_ms: int) -> str:
    """The reason why a cleaning has nothing to do. Reads the log's files.

    Raises:
        OSError, KafkaError: the files can't be read.
    """
    view = outline(log)
    found = find_cleanable(log, view, now_ms)
    active = active_segment(log)
    if found.first_uncleanable_offset < active.base_offset:
        return _reason_to_wait(log, view, found)
    clean = f"clean{_deletions(log, found, now_ms)}"
    if not active.records:
        return f"all of it is {clean}" if found.clean_bytes else "it has no records"
    rest = f"all else is {clean}; " if found.clean_bytes else ""
    records = "1 record is" if active.records == 1 else f"{active.records} records are"
    return f"{rest}{records} in the active segment, which closes {active.closes}, or by --roll"


def _reason_to_wait(log: PartitionLog, view: Outline, found: Cleanable) -> str:
    """The reason why the first dirty segment cannot be cleaned."""
    segment, end_offset = _at(view.segments, found.first_uncleanable_offset)
    stable = view.last_stable_offset
    if end_offset > stable and stable == log.producer_state.first_undecided_offset:
        return f"dirty records wait for the end of the transaction that is open at offset {stable}"
    if end_offset > stable:
        return f"dirty records wait for followers, which are at offset {stable}"
    written_ms = max(segment.largest_timestamp.timestamp, segment.modified_ms())
    lag_ms = view.config.min_compaction_lag_ms
    when = _date(written_ms + lag_ms)
    return f"dirty records wait {when}(min.compaction.lag.ms={lag_ms})"


def _at(segments: Sequence[Segment], offset: int) -> tuple[Segment, int]:
    """The sealed segment that contains an offset, and the segment's end offset."""
    for segment, following in pairwise(segments):
        if offset < following.base_offset:
            return segment, following.base_offset
    return segments[-1], segments[-1].base_offset


def _deletions(log: PartitionLog, found: Cleanable, now_ms: int) -> str:
    horizon_ms = found.delete_horizon_ms
    if horizon_ms is None or horizon_ms >= _YEAR_10000_MS:
        return ""
    if horizon_ms <= now_ms:
        return ", but tombstones or markers in it wait until all followers have them"
    return (
        f", but tombstones or markers in it wait {_date(horizon_ms)}"
        f"(delete.retention.ms={log.config.delete_retention_ms})"
    )


def _date(time_ms: int) -> str:
    """The text "until DATE ", which ends with a space; empty if the time has no date."""
    if not 0 <= time_ms < _YEAR_10000_MS:
        return ""
    return f"until {datetime.fromtimestamp(time_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC "
