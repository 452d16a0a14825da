"""Verifications that the transaction coordinator did not confirm, oldest first.

They are kept for a while: a producer that retries is held to the lowest sequence that was to be
verified, so that none of its batches overtakes another. But a client can name any producer, so
their number is bounded, over all logs. Knows nothing of why they failed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

#: Far more than verifications are under way at a time.
_KEPT_MAX: Final = 10_000


class FailedVerifications:
    """The latest failures of one broker; repeated failures of one verification count each."""

    def __init__(self, kept_max: int = _KEPT_MAX) -> None:
        self._kept_max = kept_max
        self._failed: deque[Callable[[], None]] = deque()

    def __len__(self) -> int:
        return len(self._failed)

    def keep(self, withdraw: Callable[[], None]) -> None:
        """Have a verification withdrawn later, which has no effect if its transaction has begun by
        then."""
        self._failed.append(withdraw)
        while len(self._failed) > self._kept_max:
            self._failed.popleft()()
