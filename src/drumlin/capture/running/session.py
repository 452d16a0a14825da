"""One connection of a capture, from the fence to the error or the stop that ends it.

What is decided is decided by `beginning`, `changes` and `pace`; here is only the order in which
log and database are asked and told. Nothing is confirmed to the database that the log has not
committed.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any, Final

from drumlin.capture.changes import Changes, RowsNeeded
from drumlin.capture.database import catalog, connections
from drumlin.capture.database.connections import DatabaseLost
from drumlin.capture.database.snapshot import Stopped
from drumlin.capture.database.stream import Stream
from drumlin.capture.errors import CaptureReplaced
from drumlin.capture.log import output as outputs
from drumlin.capture.log.kept_rows import TopicRows
from drumlin.capture.log.names import Names
from drumlin.capture.log.output import Output
from drumlin.capture.log.position import Definition, Position
from drumlin.capture.messages.frames import Data
from drumlin.capture.messages.lsn import lsn_text
from drumlin.capture.messages.pgoutput import Commit, Message, Relation, decode
from drumlin.capture.running import plan
from drumlin.capture.running.beginning import FromSnapshot, beginning
from drumlin.capture.running.options import CaptureOptions
from drumlin.capture.running.pace import Pace
from drumlin.capture.running.snapshot_run import SnapshotRun, create_topics
from drumlin.capture.values.types import Types

if TYPE_CHECKING:
    import psycopg

    from drumlin.client.client import Client

_WAIT_S: Final = 0.25
_OTHER_ENDS_S: Final = 10.0
_SILENT_S: Final = 1.0
#: How often the catalog is asked whether the tables are still those that are captured.
LOOK_S: Final = 10.0


class Session:
    """What lasts over the connections of one process: who it is, whose rows it needs."""

    def __init__(self, options: CaptureOptions, client: Client, run: str) -> None:
        self.options, self._client, self.run = options, client, run
        self._names = Names(options.name)
        self._needed: set[str] = set()
        self._has_begun = False
        #: Commits since the capture began: whether it gets on.
        self.commits = 0

    def go(self) -> None:
        """Until it is told to stop.

        Raises:
            RowsNeeded, DatabaseLost, ClientError: it may go on with another call.
            CaptureError: it must not go on before something is mended.
        """
        with contextlib.closing(connections.connect(self.options.url)) as connection:
            self._check_not_replaced()
            known = self._known()
            found = plan.look(connection, self.options, self._names, known)
            if known is None:
                topics = found.definition(self.options.prefix, self._names.topic).topics
                outputs.check_own(self._client, self._names, topics)
            # Only now anybody is fenced.
            outputs.create_own_topic(self._client, self._names)
            output = Output(self._client, self._names)
            try:
                with contextlib.suppress(Stopped):
                    self._go_with(connection, output)
            finally:
                output.abort()

    def _known(self) -> Definition | None:
        """The tables of a capture that has its snapshot."""
        if not outputs.has_own_topic(self._client, self._names):
            return None
        position = outputs.read_position(self._client, self._names)
        if position is None or position.lsn is None:
            return None
        return outputs.read_definition(self._client, self._names)

    def _check_not_replaced(self) -> None:
        """Before this process fences another that has fenced it."""
        if self._has_begun:
            if not outputs.has_own_topic(self._client, self._names):
                raise CaptureReplaced("this capture was removed meanwhile")
            position = outputs.read_position(self._client, self._names)
            if position is not None and position.run != self.run:
                raise CaptureReplaced("another capture of this name has begun meanwhile")

    def _go_with(self, connection: psycopg.Connection[Any], output: Output) -> None:
        names = self._names
        # Only now nobody else writes: what is read here is how it is.
        position = outputs.read_position(self._client, names)
        definition = outputs.read_definition(self._client, names)
        is_anew = position is None or position.lsn is None
        found = plan.look(connection, self.options, names, None if is_anew else definition)
        begin = beginning(position, definition, found.slot, found.server, names.slot)
        if isinstance(begin, FromSnapshot):
            definition = found.definition(self.options.prefix, names.topic)
            output.commit(Position(self.run, None), definition)
        else:
            output.commit(Position(self.run, begin.lsn))
        self._has_begun = True
        self._end_other(connection)
        if isinstance(begin, FromSnapshot):
            plan.publish(connection, found, names)
            if begin.drops_slot:
                catalog.rows(connection, "SELECT pg_drop_replication_slot(%s)", (names.slot,))
            taken = SnapshotRun(self.options, names, self._client, output, self.run)
            assert definition is not None
            lsn = taken.take(connection, found, definition)
        else:
            assert definition is not None
            lsn = begin.lsn
            create_topics(self._client, definition, self.options.partitions)
            self.options.tell(f"continuing at {lsn_text(lsn)}")
            if found.others:
                self.options.tell(f"not captured, as they came later: {', '.join(found.others)}")
        self.commits += 1
        self._follow(connection, output, definition, lsn)

    def _end_other(self, connection: psycopg.Connection[Any]) -> None:
        """One of the name that is fenced by now, and still holds the slot."""
        deadline = time.monotonic() + _OTHER_ENDS_S
        while True:
            slot = catalog.slot(connection, self._names.slot)
            if slot is None or slot.active_pid is None:
                return
            if time.monotonic() > deadline:
                raise DatabaseLost(f"slot {slot.name} is in use by process {slot.active_pid}")
            catalog.rows(connection, "SELECT pg_terminate_backend(%s)", (slot.active_pid,))
            time.sleep(0.1)

    def _follow(
        self,
        connection: psycopg.Connection[Any],
        output: Output,
        definition: Definition,
        lsn: int,
    ) -> None:
        with contextlib.closing(TopicRows()) as rows:
            for topic in sorted(self._needed):
                rows.load(self._client, topic)
            types = Types(catalog.types(connection))
            changes = Changes(definition.tables, types, rows, lsn, self.options.on_truncate)
            stream = Stream(self.options.url, self._names.slot, self._names.publication, lsn)
            with contextlib.closing(stream):
                try:
                    following = _Following(
                        self, connection, output, types, changes, stream, definition
                    )
                    following.run(lsn)
                except RowsNeeded as needed:
                    self._needed.add(needed.topic)
                    raise


class _Following:
    """The stream of one connection."""

    def __init__(
        self,
        session: Session,
        connection: psycopg.Connection[Any],
        output: Output,
        types: Types,
        changes: Changes,
        stream: Stream,
        definition: Definition,
    ) -> None:
        self._session, self._connection, self._output = session, connection, output
        self._types, self._changes, self._stream = types, changes, stream
        self._options = session.options
        self._definition = definition
        self._silent_until_s = self._look_at_s = 0.0

    def run(self, lsn: int) -> None:
        pace = Pace(lsn, time.monotonic(), self._options.heartbeat_s)
        changes, stream, output = self._changes, self._stream, self._output
        while not self._options.should_stop():
            self._look()
            frame = stream.read(0)
            if frame is None and not pace.is_due(output.size_bytes, False, time.monotonic()):
                frame = stream.read(_WAIT_S)
            if isinstance(frame, Data):
                self._take(decode(frame.payload), pace)
            elif frame is not None:
                if not changes.in_transaction:
                    pace.heard(frame.end_lsn)
                if frame.wants_answer:
                    stream.confirm(pace.committed_lsn)
            if not changes.in_transaction and pace.is_due(
                output.size_bytes, frame is not None, time.monotonic()
            ):
                self._commit(pace)
        if not changes.in_transaction and pace.taken_lsn > pace.committed_lsn:
            self._commit(pace)

    def _speak(self, pace: Pace) -> None:
        """The server takes a receiver that is silent for `wal_sender_timeout` for dead."""
        self._silent_until_s = time.monotonic() + _SILENT_S
        self._stream.confirm(pace.committed_lsn)

    def _look(self) -> None:
        """For what the stream does not tell: a captured table that is another one now."""
        now_s = time.monotonic()
        if now_s >= self._look_at_s:
            self._look_at_s = now_s + LOOK_S
            plan.refuse(plan.made_anew(self._definition, catalog.tables(self._connection)))

    def _commit(self, pace: Pace) -> None:
        self._output.commit(Position(self._session.run, pace.taken_lsn))
        pace.committed(time.monotonic())
        self._session.commits += 1
        self._stream.confirm(pace.committed_lsn)

    def _take(self, message: Message, pace: Pace) -> None:
        if isinstance(message, Relation) and self._changes.unknown_types(message):
            self._types.add(catalog.types(self._connection))
        for record in self._changes.take(message):
            self._output.send(record)
            if time.monotonic() >= self._silent_until_s:  # it may be one message of many records
                self._speak(pace)
        if isinstance(message, Commit):
            # Before PostgreSQL 15 it tells of transactions that have changed other tables, too.
            if self._output.record_count:
                pace.took(self._changes.end_lsn, time.monotonic())
            else:
                pace.heard(self._changes.end_lsn)
