"""Follows the stream of one connection, and meanwhile reads the tables that are not read yet.

An LSN is confirmed to the database only after the log has committed the changes before it. Commits
never split a database transaction.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from drumlin.capture.changes import Changes, UnknownTable
from drumlin.capture.database import catalog, checks
from drumlin.capture.database.catalog import FoundTable
from drumlin.capture.database.stream import Stream
from drumlin.capture.database.streamed import StreamedTransactions
from drumlin.capture.database.waiting import Stopped
from drumlin.capture.errors import CaptureError, DatabaseLost
from drumlin.capture.log.names import Names
from drumlin.capture.log.output import Output
from drumlin.capture.log.position import Definition, Position
from drumlin.capture.messages.frames import Keepalive
from drumlin.capture.messages.pgoutput import Begin, Commit, Message, Relation, decode
from drumlin.capture.messages.runs import runs
from drumlin.capture.running import plan, wal_limit, watching
from drumlin.capture.running.heeding import BeginAgain, await_reason, heed
from drumlin.capture.running.options import CaptureOptions
from drumlin.capture.running.pace import Pace
from drumlin.capture.running.progress import Progress
from drumlin.capture.running.reading import Reading
from drumlin.capture.values.record import Place, Record, place_of
from drumlin.capture.values.rows import TypesChanged
from drumlin.capture.values.types import Types
from drumlin.client.needs_arrow import has_arrow
from drumlin.client.transactions.errors import ProducerFenced, TransactionAborted

if TYPE_CHECKING:
    import psycopg

    from drumlin.capture.change_columns import ChangeColumns

_WAIT_S: Final = 0.25
_WAIT_READING_S: Final = 0.01
_SILENT_S: Final = 1.0
#: The interval of checks of catalog and log, for events that the stream does not show.
LOOK_S: Final = 10.0
_SAMPLE_S: Final = 1.0
#: The fewest messages that are converted together: fewer are converted faster one by one.
FEW: Final = 100


class Following:
    """Receives frames, writes records, commits and confirms."""

    def __init__(
        self,
        options: CaptureOptions,
        run: str,
        connection: psycopg.Connection[Any],
        output: Output,
        types: Types,
        changes: Changes,
        stream: Stream,
        timeline: int,
        changed_lsn: int,
        definition: Definition,
        reading: Reading,
        left_out: Mapping[int, str | None],
        progress: Progress,
    ) -> None:
        self._options, self._run = options, run
        self._connection, self._output = connection, output
        self._types, self._changes, self._stream = types, changes, stream
        self._definition, self._reading, self._left_out = definition, reading, left_out
        progress.unread_tables = len(definition.unread)
        self._progress = progress
        self._streamed = StreamedTransactions()
        self._columns: ChangeColumns | None = None
        if has_arrow():
            from drumlin.capture.change_columns import ChangeColumns

            self._columns = ChangeColumns(changes, options.form)
        self._silent_until_s = self._look_at_s = self._sample_at_s = 0.0
        self._transactions = 0  # that wait for the next commit
        self._has_records = False  # whether the current transaction has any
        self._timeline = timeline
        lsn, now_s = changes.end_lsn, time.monotonic()
        self._pace = Pace(lsn, now_s, options.heartbeat_s, changed_lsn)
        self.commits = 0

    def go(self) -> None:
        """Follow the stream until the capture is asked to stop.

        Raises:
            RowsNeeded, BeginAgain, DatabaseLost, ClientError: a new stream may continue.
            CaptureError: something must be fixed before the capture may continue.
            TooMuchWal: the server keeps more WAL than the limit allows.
            Stopped: the capture was asked to stop in the middle of a transaction.
        """
        try:
            with contextlib.closing(self._streamed):
                self._follow()
        except DatabaseLost:
            raise
        except (ProducerFenced, TransactionAborted):
            await_reason(self._output, self._definition, self._run, self._options.should_stop)
            raise
        except CaptureError:
            # A topic that was made anew, or a new table, may be all that is wrong.
            if self._has_lost_topic() or self._has_new_tables(self._tables()):
                raise BeginAgain from None
            raise

    def _follow(self) -> None:
        pace, changes, stream, output = self._pace, self._changes, self._stream, self._output
        while not self._options.should_stop():
            frame = stream.read(0)
            if frame is None and not pace.is_due(output.size_bytes, False, time.monotonic()):
                frame = self._wait()
            if isinstance(frame, Keepalive):
                if not changes.in_transaction:
                    pace.heard(frame.end_lsn)
                if frame.wants_answer:
                    stream.confirm(pace.committed_lsn)
            elif frame is not None and not self._take_together(frame):
                for payload in frame:
                    self._receive(payload)
                    self._go_on(True)
                continue
            self._go_on(frame is not None)
        if not changes.in_transaction and pace.taken_lsn > pace.committed_lsn:
            self._commit()

    def _go_on(self, has_more: bool) -> None:
        """Do the pending work between transactions."""
        pace, output = self._pace, self._output
        if self._changes.in_transaction:
            return
        self._progress.reached(pace.committed_lsn if output.record_count else pace.taken_lsn)
        if self._reading.is_on:
            self._read_on()
        if pace.is_due(output.size_bytes, has_more, time.monotonic()):
            self._commit()

    def _wait(self) -> Any:
        """Wait for the next frame."""
        self._look()
        if not self._reading.is_on:
            return self._stream.read(_WAIT_S)
        if self._reading.high_lsn is not None:
            self._stream.confirm(self._pace.committed_lsn, wants_answer=True)
        return self._stream.read(_WAIT_READING_S)

    def _take_together(self, payloads: list[bytes]) -> bool:
        """Write the records of a run of messages as columns, if that is possible and worth it."""
        if (
            self._columns is None
            or len(payloads) < FEW
            or self._reading.is_on
            or self._streamed.is_in_block
        ):
            return False
        taken = self._columns.take(payloads)
        if taken is None:
            return False
        for part in taken.parts:
            if part.begin is not None:
                self._began(part.begin)
            self._has_records |= part.has_records
            if part.end_lsn is not None:
                self._ended(part.end_lsn)
        for each in taken.columns:
            self._output.append(each)
        self._show_alive()
        return True

    def _receive(self, payload: bytes) -> None:
        if not self._streamed.takes(payload):
            self._take(decode(payload))
            return
        for run in runs(self._streamed.take(payload)):  # the messages of a whole transaction
            if self._options.should_stop():
                raise Stopped
            if not self._take_together(run):
                for each in run:
                    self._take(decode(each))
                    self._show_alive()

    def _take(self, message: Message) -> None:
        if isinstance(message, Begin):
            self._began(message)
        elif isinstance(message, Relation) and self._changes.unknown_types(message):
            self._types.add(catalog.types(self._connection))
        for record in self._records(message):
            self._send(record, self._changes.place)
            self._has_records = True
        if isinstance(message, Commit):
            self._ended(self._changes.end_lsn)

    def _began(self, begin: Begin) -> None:
        self._reading.began(begin.xid)
        self._has_records = False

    def _ended(self, end_lsn: int) -> None:
        # Before PostgreSQL 15 a transaction that changes only other tables is sent, but empty.
        if self._has_records:
            self._transactions += 1
            self._pace.took(end_lsn, time.monotonic())
        else:
            self._pace.heard(end_lsn)

    def _records(self, message: Message) -> Iterator[Record]:
        try:
            yield from self._changes.take(message)
        except TypesChanged:  # before the first record
            self._types.add(catalog.types(self._connection))
            self._changes.renew()
            yield from self._changes.take(message)
        except UnknownTable as unknown:  # likewise
            if catalog.has_table(self._connection, unknown.oid):
                raise
            self._changes.leave_out(unknown.oid)
            yield from self._records(message)

    def _read_on(self) -> None:
        """Write the chunk that waits, or read the next one. Call it between transactions only."""
        reading, pace = self._reading, self._pace
        if reading.high_lsn is None:
            reading.read()
        if reading.high_lsn is not None:
            if pace.taken_lsn < reading.high_lsn:
                return
            place = place_of(self._definition.database, "incremental", reading.high_lsn)
            for record in reading.take():
                self._send(record, place)
            if self._output.record_count:
                pace.took(pace.taken_lsn, time.monotonic())
        finished = reading.finished()
        if finished is not None:
            table, count = finished
            self._definition = self._definition.with_tables([table._replace(is_read=True)])
            self._progress.unread_tables -= 1
            self._commit(self._definition)
            self._options.tell(f"{table.full_name}: {count:,} rows read into topic {table.topic}")

    def _send(self, record: Record, place: Place) -> None:
        form = self._options.form
        for each in (record,) if form.is_bare else form.written(record, place):
            self._output.send(each)
        self._show_alive()  # one message may have many records

    def _show_alive(self) -> None:
        """Send a status update in time, before `wal_sender_timeout` closes the connection."""
        if time.monotonic() >= self._silent_until_s:
            self._silent_until_s = time.monotonic() + _SILENT_S
            self._stream.confirm(self._pace.committed_lsn)

    def _commit(self, definition: Definition | None = None) -> None:
        pace, count = self._pace, self._output.record_count
        counts = self._progress.counts(count, self._transactions)
        reached = Position(self._run, pace.taken_lsn, self._timeline, pace.changed_lsn, counts)
        self._output.commit(reached, definition)
        self._progress.wrote(count, self._transactions)
        self._transactions = 0
        self._pace.committed(time.monotonic())
        self.commits += 1
        self._stream.confirm(self._pace.committed_lsn)
        self._look()

    def _sample(self) -> None:
        names = Names(self._options.name)
        lsn, kept_bytes = catalog.flushed_and_kept(self._connection, names.slot)
        self._progress.sampled(lsn, kept_bytes, time.time_ns() // 1_000_000)
        self._stream.confirm(self._pace.committed_lsn, wants_answer=True)

    def _look(self) -> None:
        """Check for what the stream does not show: other tables, commands, the WAL limit.

        Commands are looked up in the log, as an idle capture commits nothing and so would not
        notice that it is fenced.
        """
        now_s = time.monotonic()
        if now_s >= self._sample_at_s:
            self._sample_at_s = now_s + _SAMPLE_S
            self._sample()
        if now_s < self._look_at_s:
            return
        self._look_at_s = now_s + LOOK_S
        wal_limit.check(self._connection, self._options)
        every = self._tables()
        if self._has_new_tables(every):
            raise BeginAgain
        heed(self._output, self._definition, self._run)
        plan.refuse(plan.made_anew(self._definition, every))
        if self._has_lost_topic():
            raise BeginAgain
        if not self._changes.in_transaction:
            self._look_at_partitions()

    def _tables(self) -> list[FoundTable]:
        return catalog.tables(self._connection, Names(self._options.name).publication)

    def _has_new_tables(self, every: list[FoundTable]) -> bool:
        """Whether an uncaptured table can now be captured, or cannot for a new reason."""
        known = {each.oid for each in self._definition.tables}
        matching = checks.chosen(every, self._options.tables)
        others = [each for each in matching if each.oid not in known]
        names = Names(self._options.name)
        return plan.has_changed(self._connection, self._options, names, others, self._left_out)

    def _has_lost_topic(self) -> bool:
        ids = self._output.topic_ids(self._definition.topics)
        return watching.has_lost_topic(self._definition, ids)

    def _look_at_partitions(self) -> None:
        leaves = catalog.leaves(self._connection)
        has_older_rows = partial(
            catalog.has_older_rows, self._connection, self._options.should_stop
        )
        now, told = watching.with_leaves(self._definition, leaves, has_older_rows)
        for each in told:
            self._options.tell(each)
        if now is not self._definition:
            self._definition = now
            self._commit(now)
