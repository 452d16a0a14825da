"""Which exchange of segments of a log is under way, and who may begin, end or undo one.

Knows nothing of how it is done: see `segment_swap.py`.
"""

from __future__ import annotations

import threading
from typing import Protocol


class PendingSwap(Protocol):
    """An exchange whose plan is on the device, or may be."""

    is_applied: bool

    def settle(self) -> None:
        """Finish what was applied, else take it back. Whoever calls it holds the lock."""


class SegmentSwaps:
    """The exchanges of one log. `lock` is held by whoever begins or ends one, or cuts the log."""

    __slots__ = ("lock", "pending", "retention_waits")

    def __init__(self) -> None:
        self.lock = threading.RLock()
        #: The one whose plan is on the device, or may be.
        self.pending: PendingSwap | None = None
        #: Retention met an exchange, and is to be tried again soon.
        self.retention_waits = False

    @property
    def holds_segments(self) -> bool:
        """Whether a crash would bring segments back that are deleted now."""
        return self.pending is not None and not self.pending.is_applied

    def settle(self) -> None:
        """Have no plan on the device any more: what was applied is finished, else taken back.

        Raises:
            OSError: that is not possible now.
        """
        with self.lock:
            if self.pending is not None:
                self.pending.settle()
