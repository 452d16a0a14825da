"""When what was sent is committed, and up to where the server is told so. Pure.

A commit takes as long as some hundred changes: while more come at once, source transactions share
one. What is confirmed was committed before: so the slot never is ahead of the topics.
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
        #: Taken from the stream as a whole: transactions, or word that there were none.
        self.taken_lsn = lsn
        self._heartbeat_s = heartbeat_s
        self._last_s = now_s
        self._waiting_since_s: float | None = None

    def took(self, lsn: int, now_s: float) -> None:
        """A source transaction ended there."""
        self.taken_lsn = max(self.taken_lsn, lsn)
        if self._waiting_since_s is None:
            self._waiting_since_s = now_s

    def heard(self, lsn: int) -> None:
        """The server has sent all before it, and no transaction is open here."""
        self.taken_lsn = max(self.taken_lsn, lsn)

    def is_due(self, size_bytes: int, has_more: bool, now_s: float) -> bool:
        """Whether to commit now. To be asked between source transactions only."""
        if self._waiting_since_s is not None:
            is_long = now_s - self._waiting_since_s >= _SHARED_S
            return not has_more or is_long or size_bytes >= _SIZE_MAX
        return self.taken_lsn > self.committed_lsn and now_s - self._last_s >= self._heartbeat_s

    def committed(self, now_s: float) -> None:
        """What was taken is committed."""
        self.committed_lsn = self.taken_lsn
        self._waiting_since_s = None
        self._last_s = now_s
