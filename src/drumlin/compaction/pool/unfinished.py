"""The state of a log whose last cleaning did not complete."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from drumlin.compaction.dirty.round_progress import RoundProgress
from drumlin.storage.replacement.cleaned_segment import NoRoom


class Unfinished(NamedTuple):
    """The reason, the progress, and the time of the next attempt."""

    #: The log is not cleaned before this time.
    resting_until: float = -math.inf
    #: None if there was nothing to do.
    reason: str | None = None
    #: With less space than this on its device, the log is not cleaned before `due_at`.
    needed_bytes: int = 0
    due_at: float = -math.inf
    progress: RoundProgress | None = None

    @classmethod
    def because_of(
        cls, error: Exception | None, progress: RoundProgress | None, due_at: float
    ) -> Unfinished:
        """The state after a cleaning that failed, or that found nothing to do (no `error`)."""
        reason = None if error is None else str(error)
        needed_bytes = error.needed_bytes if isinstance(error, NoRoom) else 0
        return cls(reason=reason, needed_bytes=needed_bytes, due_at=due_at, progress=progress)


NOT_BEGUN: Final = Unfinished()
