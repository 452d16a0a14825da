"""The part of a log that can be cleaned now, and its dirty ratio. Pure.

    tail: cleaned before    head: dirty, cleanable      not cleanable
    [log start ........ first dirty)[first dirty ...... first uncleanable)[......... log end)

Not cleanable are the active segment, everything from the last stable offset on, records written
less than `min.compaction.lag.ms` ago, and any segment that contains some of these, since segments
are cleaned as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

_FOREVER: Final = 2**63 - 1


class SegmentFacts(NamedTuple):
    """The facts about a segment that decide whether it is cleanable."""

    base_offset: int
    size: int
    #: The time at which the latest record was written: the later of the largest timestamp and
    #: the time of the last append, since producers may send any timestamp.
    written_ms: int
    #: The approximate time at which the oldest record was written; -1 if that does not matter.
    begun_ms: int


class LogFacts(NamedTuple):
    """The facts about a compacted log. The last segment is the active one."""

    log_start_offset: int
    last_stable_offset: int
    #: The cleaner checkpoint, where the last cleaning ended; None if there was none.
    checkpoint_offset: int | None
    segments: Sequence[SegmentFacts]
    #: The earliest delete horizon below the checkpoint; None if unknown.
    delete_horizon_ms: int | None = None


class Cleanable(NamedTuple):
    """The parts of a log, as in the diagram above; sizes count whole segments."""

    first_dirty_offset: int
    first_uncleanable_offset: int
    clean_bytes: int
    cleanable_bytes: int
    #: How long the oldest dirty record has waited beyond `max.compaction.lag.ms`.
    overdue_ms: int
    #: Whether the log was truncated below the checkpoint: clean from the log's start.
    is_checkpoint_invalid: bool
    #: The earliest delete horizon of the clean part; None if unknown.
    delete_horizon_ms: int | None = None
    #: Of closed segments that cannot be cleaned yet.
    uncleanable_bytes: int = 0

    def has_deletions_to_drop(self, now_ms: int, *, if_unknown: bool = False) -> bool:
        """Whether tombstones or markers of the clean part can be removed now.

        The horizon is unknown if another program or an earlier version has cleaned the log.
        """
        if not self.clean_bytes or self.is_checkpoint_invalid:
            return False
        return if_unknown if self.delete_horizon_ms is None else self.delete_horizon_ms <= now_ms

    @property
    def dirty_ratio(self) -> float:
        """Dirty bytes divided by clean and dirty bytes; 0 for an empty log."""
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else 0.0


def cleanable(
    facts: LogFacts,
    now_ms: int,
    *,
    min_compaction_lag_ms: int = 0,
    max_compaction_lag_ms: int = _FOREVER,
) -> Cleanable:
    """Divide a log into its clean, dirty and uncleanable parts."""
    segments = facts.segments
    sealed, active = segments[:-1], segments[-1]
    first_dirty, is_invalid = _first_dirty_offset(facts, active.base_offset)
    first_uncleanable = active.base_offset
    clean = dirty = 0
    waiting_since = _FOREVER
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
        sum(each.size for each in sealed) - clean - dirty,
    )


def _first_dirty_offset(facts: LogFacts, active_base_offset: int) -> tuple[int, bool]:
    start = max(facts.log_start_offset, facts.segments[0].base_offset)
    checkpoint = facts.checkpoint_offset
    if checkpoint is None:
        return start, False
    if checkpoint > active_base_offset:
        return start, True
    return max(start, checkpoint), False
