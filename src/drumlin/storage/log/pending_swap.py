"""The swap of a log's segments that is under way, and the lock to begin, end or undo one.

Knows nothing of how it is done: see `segment_swap.py`.
"""

from __future__ import annotations

import threading
from typing import Protocol


class PendingSwap(Protocol):
    """A swap whose plan is on the device, or may be."""

    is_applied: bool
    #: Tombstones or markers from before this offset may be gone with it.
    drops_deletions_before: int

    def settle(self) -> None:
        """Finish the swap if it was applied, else undo it. The caller holds the lock."""


class SegmentSwaps:
    """The swaps of one log. `lock` is held to begin or end one, and to truncate the log."""

    __slots__ = ("lock", "pending", "retention_waits")

    def __init__(self) -> None:
        self.lock = threading.RLock()
        #: The swap whose plan is on the device, or may be.
        self.pending: PendingSwap | None = None
        #: Retention found a swap under way, and is to be tried again soon.
        self.retention_waits = False

    @property
    def holds_segments(self) -> bool:
        """Whether segments that are deleted now would come back after a crash."""
        return self.pending is not None and not self.pending.is_applied

    def settle(self) -> None:
        """Leave no plan on the device: finish the swap if it was applied, else undo it.

        Raises:
            OSError: that is not possible now.
        """
        with self.lock:
            if self.pending is not None:
                self.pending.settle()
