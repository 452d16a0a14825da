"""Decides when to commit, and which LSN may be confirmed to the server. Pure.

A commit costs as much time as some hundred changes, so under load several source transactions share
one. An LSN is confirmed only after its commit, so the slot is never ahead of the topics.
"""

from __future__ import annotations

from typing import Final

#: Source transactions share a commit up to this size and for this long. Rows are sent before the
#: commit, so memory does not depend on it.
_SIZE_MAX: Final = 16 << 20
_SHARED_S: Final = 0.2


class Pace:
    """The progress of one connection."""

    def __init__(
        self, lsn: int, now_s: float, heartbeat_s: float, changed_lsn: int | None = None
    ) -> None:
        #: All transactions before this LSN are committed in the log.
        self.committed_lsn = lsn
        #: All transactions before this LSN were taken from the stream.
        self.taken_lsn = lsn
        #: The end of the last transaction with changes of captured tables.
        self.changed_lsn = lsn if changed_lsn is None else changed_lsn
        self._heartbeat_s = heartbeat_s
        self._last_s = now_s
        self._waiting_since_s: float | None = None

    def took(self, lsn: int, now_s: float) -> None:
        """Record that a source transaction ended at this LSN."""
        self.taken_lsn = self.changed_lsn = max(self.taken_lsn, lsn)
        if self._waiting_since_s is None:
            self._waiting_since_s = now_s

    def heard(self, lsn: int) -> None:
        """Record that the server has sent everything before this LSN, with no transaction open."""
        self.taken_lsn = max(self.taken_lsn, lsn)

    def is_due(self, size_bytes: int, has_more: bool, now_s: float) -> bool:
        """Whether to commit now. Call it between source transactions only."""
        if self._waiting_since_s is not None:
            is_long = now_s - self._waiting_since_s >= _SHARED_S
            return not has_more or is_long or size_bytes >= _SIZE_MAX
        return self.taken_lsn > self.committed_lsn and now_s - self._last_s >= self._heartbeat_s

    def committed(self, now_s: float) -> None:
        """Record that everything before `taken_lsn` is committed."""
        self.committed_lsn = self.taken_lsn
        self._waiting_since_s = None
        self._last_s = now_s
