"""One connection of a capture: from fencing its predecessor to the error or stop that ends it."""

from __future__ import annotations

import contextlib
import random
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from drumlin.capture.binlog import connections, plan, snapshot
from drumlin.capture.binlog.changes import BinlogChanges, GroupUndone, TableBorn
from drumlin.capture.binlog.following import BinlogFollowing
from drumlin.capture.binlog.plan import Found
from drumlin.capture.binlog.stream import PlaceGone, Stream
from drumlin.capture.binlog_events.column_types import kind_of
from drumlin.capture.changes import RowsNeeded
from drumlin.capture.database.waiting import Stopped
from drumlin.capture.errors import CaptureRefused, CaptureReplaced
from drumlin.capture.log import output as outputs
from drumlin.capture.log.kept_rows import TopicRows
from drumlin.capture.log.names import Names
from drumlin.capture.log.output import Output
from drumlin.capture.log.position import BinlogPosition, Definition, Position
from drumlin.capture.running.following import LOOK_S
from drumlin.capture.running.heeding import BeginAgain
from drumlin.capture.running.options import CaptureOptions
from drumlin.capture.running.progress import Phase, Progress
from drumlin.capture.running.snapshot_run import create_topics
from drumlin.capture.running.table_copy import copy_table
from drumlin.capture.values.kinds import TEXT, Column
from drumlin.capture.values.record import Record
from drumlin.client.errors import RequestRefused

if TYPE_CHECKING:
    import pymysql

    from drumlin.capture.binlog.catalog import FoundTable
    from drumlin.client.client import Client

_WAIT_S: Final = 0.1
#: The size of a snapshot's transactions.
_COMMIT_BYTES: Final = 4 << 20


class MariadbSession:
    """State kept between connections: the name of the run, the topics whose rows it needs."""

    def __init__(
        self, options: CaptureOptions, client: Client, run: str, progress: Progress
    ) -> None:
        self._options, self._client, self._run = options, client, run
        self._progress = progress
        self._names = Names(options.name)
        self._needed: set[str] = set()
        self._undone: set[str] = set()
        self._told: set[str] = set()
        self._born: set[str] = set()  # tables that the next group creates and fills
        self._left_out: set[str] = set()  # those of them that are not captured
        self._there: set[str] | None = None  # as in `plan.is_wanted`
        self._server_id = random.randint(*plan.SERVER_IDS)
        self._has_begun = self._is_paused_told = False
        #: Whether database and log were ever reached, so their addresses must be right.
        self.has_connected = self.has_reached_log = False
        #: The number of commits since the process began: it shows progress.
        self.commits = 0

    def go(self) -> None:
        """Capture until asked to stop.

        Raises:
            RowsNeeded, BeginAgain, DatabaseLost, ClientError: another call may continue.
            CaptureError: something must be fixed before the capture may continue.
        """
        try:
            self._go()
        except GroupUndone as undone:
            self._undone.add(undone.gtid)
            raise BeginAgain from None
        except TableBorn as born:
            self._born.add(born.full_name)
            raise BeginAgain from None
        except RowsNeeded as needed:
            self._needed.add(needed.topic)
            raise
        except RequestRefused as error:
            was_there = self._has_begun or self._is_paused_told
            if was_there and not outputs.has_own_topic(self._client, self._names):
                raise CaptureReplaced("this capture was removed meanwhile") from error
            raise

    def _go(self) -> None:
        with connections.connected(self._options.url) as connection:
            self.has_connected = True
            position, known = self._look_into_log()
            self.has_reached_log = True
            if known is not None and known.is_paused:
                self._wait_for_resume()
                return
            found = plan.look(connection, self._options, known)
            if known is None:
                topics = found.definition(self._options.prefix, self._names.topic).topics
                outputs.check_own(self._client, self._names, topics)
            elif position is not None and position.binlog is not None:
                plan.check_same_server(known, position.binlog, found.server)
            # From here on, another capture of this name is fenced.
            outputs.create_own_topic(self._client, self._names)
            output = Output(self._client, self._names)
            try:
                with contextlib.suppress(Stopped):
                    self._go_with(connection, output)
            finally:
                output.abort()

    def _look_into_log(self) -> tuple[Position | None, Definition | None]:
        """The position, and the definition of a capture whose snapshot is complete."""
        if not outputs.has_own_topic(self._client, self._names):
            if self._has_begun:
                raise CaptureReplaced("this capture was removed meanwhile")
            return None, None
        position = outputs.read_position(self._client, self._names)
        # It must not fence a process that has replaced it.
        if self._has_begun and position is not None and position.run != self._run:
            raise CaptureReplaced("another capture of this name has begun meanwhile")
        definition = outputs.read_definition(self._client, self._names)
        if definition is not None and not definition.system_id.startswith("mariadb:"):
            raise CaptureRefused(
                f"capture {self._names.name} is of a PostgreSQL: take another --name"
            )
        if position is None or not position.is_complete:
            return position, None
        return position, definition

    def _wait_for_resume(self) -> None:
        if not self._is_paused_told:
            self._options.tell("paused, until `drumlin capture resume`")
        self._is_paused_told = True
        self._progress.began(Phase.PAUSED)
        look_at_s = time.monotonic() + LOOK_S
        while not self._options.should_stop():
            time.sleep(_WAIT_S)
            if time.monotonic() >= look_at_s:
                look_at_s = time.monotonic() + LOOK_S
                _, known = self._look_into_log()
                if known is None:
                    raise CaptureReplaced("this capture was removed meanwhile")
                if not known.is_paused:
                    self._is_paused_told = False
                    return

    def _go_with(self, connection: pymysql.Connection[Any], output: Output) -> None:
        # The predecessor is fenced, so position and definition can no longer change.
        position = outputs.read_position(self._client, self._names)
        definition = outputs.read_definition(self._client, self._names)
        if position is None or position.binlog is None or definition is None:
            found = plan.look(connection, self._options, None)
            definition = found.definition(self._options.prefix, self._names.topic)
            output.commit(Position(self._run, None), definition)
            self._has_begun = True
            self._progress.began(Phase.SNAPSHOT)
            self._progress.unread_tables = len(definition.tables)
            start = self._take_snapshot(connection, output, found, definition)
            self._there = set()  # all tables that matched then are captured
        else:
            if definition.is_paused:
                raise BeginAgain
            # At once, so that the predecessor finds out why it was fenced.
            start = position.binlog
            output.commit(self._reached(start))
            self._has_begun = True
            found = plan.look(connection, self._options, definition)
            if self._there is None:
                self._there = {each.full_name for each in found.others}
            if start.created or self._born:
                definition = self._with_created(connection, output, found, definition, start)
                start = replace(start, created=())
                found = plan.look(connection, self._options, definition)
            create_topics(self._client, definition, self._options.partitions)
            self._options.tell(f"continuing at {start.gtids or 'the beginning of the binlog'}")
            self._tell_others(found)
        self.commits += 1
        # An idle connection would only count against the server's limit.
        connections.close(connection)
        self._follow(output, found, definition, start)

    def _with_created(
        self,
        connection: pymysql.Connection[Any],
        output: Output,
        found: Found,
        definition: Definition,
        start: BinlogPosition,
    ) -> Definition:
        prefix, own = self._options.prefix, self._names.topic
        created = {*start.created, *self._born}
        more = plan.added(connection, found, definition, created, prefix, own)
        for each in more.left_out:
            self._options.tell(f"not captured: {each}")
        self._told |= created
        tables = list(more.tables)
        try:
            outputs.check_own(self._client, self._names, [each.topic for each in tables])
        except CaptureRefused as error:
            self._options.tell(f"not captured: {error}")
            tables = []
        definition = definition.with_tables(tables)
        self._left_out |= self._born - {each.full_name for each in definition.tables}
        output.commit(self._reached(replace(start, created=())), definition)
        for table in tables:
            self._options.tell(f"captured from its creation on: table {table.full_name}")
        return definition

    def _tell_others(self, found: Found) -> None:
        for each in found.others:
            if each.full_name not in self._told:
                self._options.tell(
                    f"not captured, as it was there before, or has got its name later: table "
                    f"{each.full_name}: `drumlin capture remove`, then start again"
                )
                self._told.add(each.full_name)

    def _follow(
        self, output: Output, found: Found, definition: Definition, start: BinlogPosition
    ) -> None:
        assert self._there is not None
        stream, start = self._open(found, definition, start)
        with contextlib.ExitStack() as stack:
            stack.enter_context(contextlib.closing(stream))
            rows = stack.enter_context(contextlib.closing(TopicRows(self._options.form)))
            for topic in sorted(self._needed):
                rows.load(self._client, topic)
            changes = BinlogChanges(
                definition.tables,
                found.charsets,
                rows,
                start,
                self._options.on_truncate,
                self._undone,
                found.server.has_small_names,
                {each.full_name: each.uuids for each in found.tables},
                plan.is_wanted(found.server, self._options, self._there, self._left_out),
                self._born,
            )
            current = BinlogFollowing(
                self._options, self._run, output, changes, stream, definition, self._progress
            )
            try:
                self._progress.began(Phase.STREAM)
                current.go()
            except BeginAgain:
                self._born = changes.unborn
                raise
            finally:
                self.commits += current.commits

    def _open(
        self, found: Found, definition: Definition, start: BinlogPosition
    ) -> tuple[Stream, BinlogPosition]:
        """The stream from the transaction before the position, or else from the position itself.

        If the server has removed the file with that transaction, it must be the same server from
        which the tables were read.
        """
        url, number = self._options.url, self._server_id
        if start.before is None:
            return Stream(url, start.gtids, number), start
        try:
            return Stream(url, start.before, number), start
        except PlaceGone:
            if definition.system_id != found.server.identity:
                raise
        start = replace(start, before=None, last=None, last_time_s=None)
        return Stream(url, start.gtids, number), start

    def _reached(self, place: BinlogPosition, records: int = 0) -> Position:
        counts = self._progress.counts(records)
        return Position(self._run, None, counts=counts, binlog=place)

    # -- the snapshot ------------------------------------------------------------------------

    def _take_snapshot(
        self,
        connection: pymysql.Connection[Any],
        output: Output,
        found: Found,
        definition: Definition,
    ) -> BinlogPosition:
        create_topics(self._client, definition, self._options.partitions)
        gtids = snapshot.begin(connection)
        tables = snapshot.take_over(connection, found.tables)
        topics = {each.full_name: each.topic for each in definition.tables}
        for table in tables:
            topic = topics[table.full_name]
            count = self._take_table(connection, output, found, table, topic)
            self._progress.unread_tables -= 1
            self._options.tell(f"{table.full_name}: {count:,} rows in topic {topic}")
        connections.rows(connection, "COMMIT")
        start = BinlogPosition(gtids)
        count = output.record_count
        output.commit(self._reached(start, count))
        self._progress.wrote(count, 0)
        self._options.tell(f"the snapshot is complete, as of {gtids or 'an empty binlog'}")
        return start

    def _take_table(
        self,
        connection: pymysql.Connection[Any],
        output: Output,
        found: Found,
        table: FoundTable,
        topic: str,
    ) -> int:
        columns = [Column(each.name, kind_of(each.type) or TEXT) for each in table.columns]
        shape = self._options.form.rows_of(table.full_name, topic, columns, table.key)
        rows = snapshot.read_table(connection, table, found.charsets, self._options.should_stop)
        send = partial(self._send, output)
        return copy_table(self._client, topic, self._options.form, shape, rows, send)

    def _send(self, output: Output, record: Record) -> None:
        output.send(record)
        if output.size_bytes >= _COMMIT_BYTES:
            if self._options.should_stop():
                raise Stopped
            count = output.record_count
            output.commit(Position(self._run, None, counts=self._progress.counts(count)))
            self._progress.wrote(count, 0)
