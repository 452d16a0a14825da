"""Verifications that were not confirmed by the coordinator, in the order in which they failed.

They are kept for a while: whoever comes again is held to the lowest sequence that it has asked
about, so that none of its batches overtakes another. But anybody can ask about any producer, so
only so many are kept, over all logs. Knows nothing of why they failed.
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

from drumlin.storage.producer_state import ProducerState
from drumlin.storage.verification import Verification

#: Far more than producers and partitions that wait for a coordinator at a time.
_KEPT_MAX: Final = 10_000


class _Failed(NamedTuple):
    state: ProducerState
    producer_id: int
    verification: Verification


class FailedVerifications:
    """The latest of one broker; each failure counts, also of the same verification."""

    def __init__(self, kept_max: int = _KEPT_MAX) -> None:
        self._kept_max = kept_max
        self._failed: deque[_Failed] = deque()

    def __len__(self) -> int:
        return len(self._failed)

    def keep(self, state: ProducerState, producer_id: int, verification: Verification) -> None:
        """Withdraw it later, unless its producer begins its transaction by then."""
        self._failed.append(_Failed(state, producer_id, verification))
        while len(self._failed) > self._kept_max:
            oldest = self._failed.popleft()
            oldest.state.withdraw_verification(oldest.producer_id, oldest.verification)
