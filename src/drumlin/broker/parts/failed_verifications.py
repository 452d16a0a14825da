"""Verifications that the transaction coordinator did not confirm, oldest first.

They are kept for a while: a producer that retries must begin with the lowest sequence of its failed
verifications, so that its batches stay in order. But a client can name any producer, so their
number is bounded, over all logs. The causes of failures are not known here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

#: Far more than the verifications in progress at a time.
_KEPT_MAX: Final = 10_000


class FailedVerifications:
    """The latest failures of one broker; each failure of the same verification counts."""

    def __init__(self, kept_max: int = _KEPT_MAX) -> None:
        self._kept_max = kept_max
        self._failed: deque[Callable[[], None]] = deque()

    def __len__(self) -> int:
        return len(self._failed)

    def keep(self, withdraw: Callable[[], None]) -> None:
        """Withdraw a verification later, unless its transaction has begun by then."""
        self._failed.append(withdraw)
        while len(self._failed) > self._kept_max:
            self._failed.popleft()()
