"""A log whose last cleaning did not come to its end: why, how long it rests, how far it came."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from drumlin.compaction.dirty.round_progress import RoundProgress
from drumlin.storage.replacement.cleaned_segment import NoRoom


class Unfinished(NamedTuple):
    """See the module."""

    resting_until: float = -math.inf
    #: None where there was nothing to do.
    reason: str | None = None
    #: With less room than this on its device it is not tried again before it is due.
    needed_bytes: int = 0
    due_at: float = -math.inf
    progress: RoundProgress | None = None

    @classmethod
    def because_of(
        cls, error: Exception | None, progress: RoundProgress | None, due_at: float
    ) -> Unfinished:
        """What is left by a cleaning that has ended with an error, or has found nothing to do."""
        reason = None if error is None else str(error)
        needed_bytes = error.needed_bytes if isinstance(error, NoRoom) else 0
        return cls(reason=reason, needed_bytes=needed_bytes, due_at=due_at, progress=progress)


NOT_BEGUN: Final = Unfinished()
