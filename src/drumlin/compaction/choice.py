"""Which log is cleaned next. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, TypeVar

from drumlin.compaction.cleanable import Cleanable

L = TypeVar("L")


class Candidate(NamedTuple):
    """A log that is cleaned by nobody now, and not uncleanable."""

    cleanable: Cleanable
    min_cleanable_dirty_ratio: float

    @property
    def is_overdue(self) -> bool:
        """`max.compaction.lag.ms` forces it, however little there is to gain."""
        return self.cleanable.overdue_ms > 0 and self.cleanable.cleanable_bytes > 0

    @property
    def is_dirty_enough(self) -> bool:
        cleanable = self.cleanable
        return (
            cleanable.cleanable_bytes > 0 and cleanable.dirty_ratio > self.min_cleanable_dirty_ratio
        )


def choose(candidates: Iterable[tuple[L, Candidate]]) -> L | None:
    """The log whose delay is a broken promise, the longest first; else the dirtiest; or None."""
    best: L | None = None
    best_rank = (0, 0.0)
    for log, candidate in candidates:
        if candidate.is_overdue or candidate.is_dirty_enough:
            rank = (candidate.cleanable.overdue_ms, candidate.cleanable.dirty_ratio)
            if best is None or rank > best_rank:
                best, best_rank = log, rank
    return best
