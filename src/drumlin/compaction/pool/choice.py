"""The choice of the log to clean next. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, TypeVar

from drumlin.compaction.dirty.cleanable import Cleanable

L = TypeVar("L")


class Candidate(NamedTuple):
    """A log that may be cleaned: no thread is cleaning it, and it is not uncleanable."""

    cleanable: Cleanable
    min_cleanable_dirty_ratio: float
    #: Whether tombstones or markers of the clean part can be removed.
    has_deletions_to_drop: bool = False

    @property
    def is_overdue(self) -> bool:
        """Whether `max.compaction.lag.ms` requires a cleaning, whatever the dirty ratio."""
        return self.cleanable.overdue_ms > 0 and self.cleanable.cleanable_bytes > 0

    @property
    def is_worth_it(self) -> bool:
        return self.is_overdue or self.is_dirty_enough or self.has_deletions_to_drop

    @property
    def rank(self) -> tuple[int, float]:
        """The sort key: the candidate with the largest rank is cleaned first."""
        return self.cleanable.overdue_ms, self.cleanable.dirty_ratio

    @property
    def is_dirty_enough(self) -> bool:
        cleanable = self.cleanable
        return (
            cleanable.cleanable_bytes > 0 and cleanable.dirty_ratio > self.min_cleanable_dirty_ratio
        )


def in_order(candidates: Iterable[tuple[L, Candidate]]) -> list[L]:
    """The logs that are worth a cleaning, overdue ones first, then by dirty ratio."""
    worthy = [(log, each) for log, each in candidates if each.is_worth_it]
    worthy.sort(key=lambda each: each[1].rank, reverse=True)
    return [log for log, _ in worthy]
