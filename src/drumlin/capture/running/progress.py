"""The progress of a capture, for metrics and `status`. Pure.

The capture's thread updates it; other threads may read it at any moment.
"""

from __future__ import annotations

from collections import deque
from enum import StrEnum
from typing import Final

from drumlin.capture.log.position import Counts

_SAMPLES_MAX: Final = 512


class Phase(StrEnum):
    """The present activity of a capture."""

    STARTING = "starting"
    SNAPSHOT = "snapshot"
    STREAM = "stream"
    PAUSED = "paused"
    WAITING = "waiting"  # to try again after a failure


class Progress:
    """The progress of one process."""

    def __init__(self, now_ms: int) -> None:
        self.phase = Phase.STARTING
        self.records = self.transactions = self.commits = self.restarts = 0
        self.unread_tables = 0
        #: The values of the last sample; None: there is none yet.
        self.lag_bytes: int | None = None
        self.kept_bytes: int | None = None
        self._since_ms = now_ms
        self._lsn = 0
        self._current_ms: int | None = None
        self._is_current = False
        self._behind_since_ms: int | None = None
        self._ahead: deque[tuple[int, int]] = deque()  # samples that the topics have not reached

    def began(self, phase: Phase) -> None:
        """Record that the capture has entered another phase."""
        self.phase = phase
        if phase is not Phase.STREAM:
            self._ahead.clear()  # the next server may have another timeline
            self._behind_since_ms = self._current_ms
            self._is_current = False

    def sampled(self, server_lsn: int, kept_bytes: int | None, now_ms: int) -> None:
        """Record where the server's WAL ended at this moment."""
        self.kept_bytes = kept_bytes
        self._ahead.append((server_lsn, now_ms))
        if len(self._ahead) > _SAMPLES_MAX:
            self._ahead = deque(list(self._ahead)[::2])
        self.reached(self._lsn)

    def reached(self, lsn: int) -> None:
        """Record that the topics have everything before this LSN."""
        self._lsn = lsn
        while self._ahead and self._ahead[0][0] <= lsn:
            self._current_ms = self._ahead.popleft()[1]
            self.lag_bytes, self._is_current = 0, True
        if self._ahead:
            self.lag_bytes = max(self._ahead[-1][0] - lsn, 0)
            self._behind_since_ms = self._ahead[0][1]
            self._is_current = False

    def wrote(self, records: int, transactions: int) -> None:
        """Record a commit to the log."""
        self.commits += 1
        self.records += records
        self.transactions += transactions

    def lag_s(self, now_ms: int) -> float | None:
        """The time for which the topics have lacked a change; None: never complete so far."""
        if self._is_current:
            return 0.0
        since_ms = self._behind_since_ms
        return None if since_ms is None else max(now_ms - since_ms, 0) / 1000

    def counts(self, records: int = 0, transactions: int = 0) -> Counts:
        """The counts, including these records and transactions, which are about to be committed."""
        return Counts(
            self._since_ms,
            self.records + records,
            self.transactions + transactions,
            self.restarts,
            self._current_ms,
        )
