"""The rule for when a log rolls a new segment."""

from __future__ import annotations

import random
from typing import Final

from drumlin.config.topic import LogConfig
from drumlin.storage.segment.segment import RELATIVE_OFFSET_MAX, Segment

_OFFSET_INDEX_ENTRY_BYTES: Final = 8
_TIME_INDEX_ENTRY_BYTES: Final = 12


def segment_age_max_ms(config: LogConfig) -> int:
    """`segment.ms`, in a compacted log at most `max.compaction.lag.ms`."""
    if config.is_compacted and config.max_compaction_lag_ms > 0:
        return min(config.segment_ms, config.max_compaction_lag_ms)
    return config.segment_ms


def is_overdue(segment: Segment, config: LogConfig, now_ms: int) -> bool:
    """Whether the active segment's oldest record has waited for `max.compaction.lag.ms`.

    The active segment is not cleaned, and a log without appends would never roll. The wait begins
    at the first timestamp or, if that is missing, in the future, or before the segment's creation,
    at the creation. After a restart the creation time is not known: the segment may be rolled too
    early, once.
    """
    if not config.is_compacted or not segment.size:
        return False
    first = segment.first_timestamp
    since = segment.created_ms
    if 0 <= first <= now_ms and (segment.was_loaded or first > since):
        since = first
    return now_ms - since >= config.max_compaction_lag_ms


class RollRule:
    """The topic's limits, and this segment's random part of `segment.jitter.ms`."""

    __slots__ = ("_age_max_ms", "_config", "_offset_entries_max", "_time_entries_max")

    def __init__(self, config: LogConfig) -> None:
        self._config = config
        self._offset_entries_max = config.segment_index_bytes // _OFFSET_INDEX_ENTRY_BYTES
        # One entry is reserved for the largest timestamp, which is added when sealing.
        self._time_entries_max = config.segment_index_bytes // _TIME_INDEX_ENTRY_BYTES - 1
        self.draw_jitter()

    def draw_jitter(self) -> None:
        """Draw the jitter of a new segment, so that partitions do not all roll at once."""
        age_max_ms = segment_age_max_ms(self._config)
        most = min(self._config.segment_jitter_ms, age_max_ms)
        jitter_ms = random.randrange(most) if most > 0 else 0
        self._age_max_ms = age_max_ms - jitter_ms

    def applies(
        self,
        segment: Segment,
        size: int,
        last_offset: int,
        timestamp: int,
        now_ms: int,
        unindexed: int = 0,
    ) -> bool:
        """Whether a batch with these properties needs a new segment.

        `unindexed` is the number of batches to append before it, included in `size`; each may take
        an index entry.

        An empty segment is rolled only if the relative offset of the batch does not fit. The age is
        the time from the first batch's timestamp to this one's, so that a log that is filled with
        old records does not roll for each of them.
        """
        if last_offset - segment.base_offset > RELATIVE_OFFSET_MAX:
            return True
        held = segment.size
        if not held:
            return False
        if held + size > self._config.segment_bytes:
            return True
        first = segment.first_timestamp
        age_ms = timestamp - first if first >= 0 else now_ms - segment.created_ms
        return (
            age_ms > self._age_max_ms
            or segment.offset_index.count + unindexed >= self._offset_entries_max
            or segment.time_index.count + unindexed >= self._time_entries_max
        )
