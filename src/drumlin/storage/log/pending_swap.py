"""The pending segment swap of a log, and the lock to begin, end or undo one.

How a swap works is up to `segment_swap.py`.
"""

from __future__ import annotations

import threading
from typing import Protocol


class PendingSwap(Protocol):
    """A swap whose plan is on the device, or may be."""

    is_applied: bool
    #: Tombstones or markers before this offset may be removed by the swap.
    drops_deletions_before: int

    def settle(self) -> None:
        """Finish the swap if it was applied, else undo it. The caller must hold the lock."""


class SegmentSwaps:
    """The swaps of one log. `lock` must be held to begin or end one, and to truncate the log."""

    __slots__ = ("lock", "pending", "retention_waits")

    def __init__(self) -> None:
        self.lock = threading.RLock()
        #: The swap whose plan is on the device, or may be.
        self.pending: PendingSwap | None = None
        #: Whether retention found a pending swap, and has to be tried again soon.
        self.retention_waits = False

    @property
    def holds_segments(self) -> bool:
        """Whether segments deleted now could come back after a crash."""
        return self.pending is not None and not self.pending.is_applied

    def settle(self) -> None:
        """Remove the plan from the device: finish the swap if it was applied, else undo it.

        Raises:
            OSError: the swap cannot be settled at the moment.
        """
        with self.lock:
            if self.pending is not None:
                self.pending.settle()
