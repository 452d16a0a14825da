"""Follows the binlog of one connection: receives events, writes records, and commits.

Commits never split a group of events.
"""

from __future__ import annotations

import time
from typing import Final

from drumlin.capture.binlog.changes import BinlogChanges
from drumlin.capture.binlog.stream import Stream
from drumlin.capture.binlog_events.events import EventDecoder
from drumlin.capture.log.output import Output
from drumlin.capture.log.position import Definition, Position
from drumlin.capture.running.following import LOOK_S
from drumlin.capture.running.heeding import BeginAgain, await_reason, heed
from drumlin.capture.running.options import CaptureOptions
from drumlin.capture.running.pace import Pace
from drumlin.capture.running.progress import Progress
from drumlin.client.transactions.errors import ProducerFenced, TransactionAborted

_WAIT_S: Final = 0.25


class BinlogFollowing:
    """Follows one connection; its progress is counted in groups of events, from zero."""

    def __init__(
        self,
        options: CaptureOptions,
        run: str,
        output: Output,
        changes: BinlogChanges,
        stream: Stream,
        definition: Definition,
        progress: Progress,
    ) -> None:
        self._options, self._run, self._output = options, run, output
        self._changes, self._stream, self._definition = changes, stream, definition
        self._progress, self._transactions = progress, 0
        self._decoder = EventDecoder(stream.has_checksums)
        self._pace = Pace(0, time.monotonic(), options.heartbeat_s)
        self._groups = 0
        self._look_at_s = time.monotonic() + LOOK_S
        self.commits = 0

    def go(self) -> None:
        """Follow the stream until the capture is asked to stop.

        Raises:
            RowsNeeded, GroupUndone, BeginAgain, DatabaseLost, ClientError: a new stream may
                continue.
            CaptureError: something must be fixed before the capture may continue.
        """
        try:
            self._follow()
        except (ProducerFenced, TransactionAborted):
            await_reason(self._output, self._definition, self._run, self._options.should_stop)
            raise

    def _follow(self) -> None:
        pace, changes, stream = self._pace, self._changes, self._stream
        while not self._options.should_stop():
            data = stream.read(0)
            if data is None and not self._is_due(False):
                self._look()
                data = stream.read(_WAIT_S)
            if data is not None:
                self._receive(data)
            if not changes.in_group and self._is_due(data is not None):
                self._commit()
                if changes.is_altered:
                    raise BeginAgain
        if not changes.in_group and pace.taken_lsn > pace.committed_lsn:
            self._commit()

    def _is_due(self, has_more: bool) -> bool:
        if self._changes.in_group:
            return False
        if self._changes.is_altered:
            return True
        return self._pace.is_due(self._output.size_bytes, has_more, time.monotonic())

    def _receive(self, data: memoryview) -> None:
        event = self._decoder.take(data)
        if event is None:
            return
        position = self._changes.position
        for record in self._changes.take(event):
            self._output.send(record)
        if self._changes.position is not position:  # a group has ended
            self._groups += 1
            if self._output.record_count:
                self._transactions += 1
                self._pace.took(self._groups, time.monotonic())
            else:
                self._pace.heard(self._groups)

    def _commit(self) -> None:
        count = self._output.record_count
        counts = self._progress.counts(count, self._transactions)
        reached = Position(self._run, None, counts=counts, binlog=self._changes.position)
        self._output.commit(reached)
        self._progress.wrote(count, self._transactions)
        self._transactions = 0
        self._pace.committed(time.monotonic())
        self.commits += 1
        self._look()

    def _look(self) -> None:
        """Check the log for commands, and for another capture.

        A capture that is idle commits nothing, and so would not notice that it is fenced.
        """
        now_s = time.monotonic()
        if now_s < self._look_at_s:
            return
        self._look_at_s = now_s + LOOK_S
        heed(self._output, self._definition, self._run)
