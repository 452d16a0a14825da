"""The part of a log that can be cleaned now, and its dirty ratio. Pure.

    tail: cleaned before    head: dirty, cleanable      not cleanable
    [log start ........ first dirty)[first dirty ...... first uncleanable)[......... log end)

Not cleanable are the active segment, everything from the last stable offset on, and records
written less than `min.compaction.lag.ms` ago. As segments are cleaned whole, neither is a segment
that contains any of these.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

_FOR_EVER: Final = 2**63 - 1


class SegmentFacts(NamedTuple):
    """What the decision needs to know of one segment."""

    base_offset: int
    size: int
    #: When its latest record was written, as far as known: the later of the largest timestamp and
    #: the time of the last append. A timestamp alone is only the producer's claim.
    written_ms: int
    #: When its oldest record was written, as far as known; -1: it does not matter.
    begun_ms: int


class LogFacts(NamedTuple):
    """One compacted log at one moment. The last segment is the active one."""

    log_start_offset: int
    last_stable_offset: int
    #: Where the last cleaning ended; None if there was none.
    checkpoint_offset: int | None
    segments: Sequence[SegmentFacts]
    #: When the first tombstone or marker below it may go; None if that is not known.
    delete_horizon_ms: int | None = None


class Cleanable(NamedTuple):
    """See the picture above; sizes count whole segments."""

    first_dirty_offset: int
    first_uncleanable_offset: int
    clean_bytes: int
    cleanable_bytes: int
    #: By how much the wait of the oldest dirty record exceeds `max.compaction.lag.ms`.
    overdue_ms: int
    #: The checkpoint does not fit the log (truncated, or another log): clean from its start.
    is_checkpoint_invalid: bool
    #: Of the clean part: when its first tombstone or marker may go; None if that is not known.
    delete_horizon_ms: int | None = None

    def has_deletions_to_drop(self, now_ms: int, *, if_unknown: bool = False) -> bool:
        """Whether tombstones or markers of the clean part may go now.

        It is not known of what another program, or an earlier version, has cleaned.
        """
        if not self.clean_bytes or self.is_checkpoint_invalid:
            return False
        return if_unknown if self.delete_horizon_ms is None else self.delete_horizon_ms <= now_ms

    @property
    def dirty_ratio(self) -> float:
        """The dirty part of what could be cleaned, by bytes; 0 for nothing at all."""
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else 0.0


def cleanable(
    facts: LogFacts,
    now_ms: int,
    *,
    min_compaction_lag_ms: int = 0,
    max_compaction_lag_ms: int = _FOR_EVER,
) -> Cleanable:
    """Where head and tail of a log are, and how much is in them."""
    segments = facts.segments
    sealed, active = segments[:-1], segments[-1]
    first_dirty, is_invalid = _first_dirty_offset(facts, active.base_offset)
    first_uncleanable = active.base_offset
    clean = dirty = 0
    waiting_since = _FOR_EVER
    for segment, following in zip(sealed, segments[1:], strict=True):
        if following.base_offset <= first_dirty:
            clean += segment.size
            continue
        is_young = min_compaction_lag_ms > 0 and (
            segment.written_ms > now_ms - min_compaction_lag_ms
        )
        if is_young or following.base_offset > facts.last_stable_offset:
            first_uncleanable = max(first_dirty, segment.base_offset)
            break
        dirty += segment.size
        if segment.begun_ms >= 0:
            waiting_since = min(waiting_since, segment.begun_ms)
    lag_ms = max(max_compaction_lag_ms, min_compaction_lag_ms)
    overdue_ms = max(0, now_ms - lag_ms - waiting_since) if dirty else 0
    return Cleanable(
        first_dirty,
        first_uncleanable,
        clean,
        dirty,
        overdue_ms,
        is_invalid,
        facts.delete_horizon_ms,
    )


def _first_dirty_offset(facts: LogFacts, active_base_offset: int) -> tuple[int, bool]:
    start = max(facts.log_start_offset, facts.segments[0].base_offset)
    checkpoint = facts.checkpoint_offset
    if checkpoint is None:
        return start, False
    if checkpoint > active_base_offset:
        return start, True
    return max(start, checkpoint), False
