"""Decides when to commit, and which LSN may be confirmed to the server. Pure.

A commit takes as long as some hundred changes: under load several source transactions share one.
Only what is committed is confirmed: so the slot is never ahead of the topics.
"""

from __future__ import annotations

from typing import Final

#: Source transactions share a commit up to this size and for this long.
_SIZE_MAX: Final = 4 << 20
_SHARED_S: Final = 0.2


class Pace:
    """The progress of one connection."""

    def __init__(self, lsn: int, now_s: float, heartbeat_s: float) -> None:
        #: Committed in the log.
        self.committed_lsn = lsn
        #: Whole transactions before it were taken from the stream, or there were none.
        self.taken_lsn = lsn
        self._heartbeat_s = heartbeat_s
        self._last_s = now_s
        self._waiting_since_s: float | None = None

    def took(self, lsn: int, now_s: float) -> None:
        """Note that a source transaction ended at this LSN."""
        self.taken_lsn = max(self.taken_lsn, lsn)
        if self._waiting_since_s is None:
            self._waiting_since_s = now_s

    def heard(self, lsn: int) -> None:
        """Note that the server has sent all before this LSN; no transaction is open here."""
        self.taken_lsn = max(self.taken_lsn, lsn)

    def is_due(self, size_bytes: int, has_more: bool, now_s: float) -> bool:
        """Whether to commit now. Call it between source transactions only."""
        if self._waiting_since_s is not None:
            is_long = now_s - self._waiting_since_s >= _SHARED_S
            return not has_more or is_long or size_bytes >= _SIZE_MAX
        return self.taken_lsn > self.committed_lsn and now_s - self._last_s >= self._heartbeat_s

    def committed(self, now_s: float) -> None:
        """Note that all that was taken is committed."""
        self.committed_lsn = self.taken_lsn
        self._waiting_since_s = None
        self._last_s = now_s
