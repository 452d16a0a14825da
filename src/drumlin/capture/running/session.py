"""One connection of a capture: from fencing its predecessor to the error or stop that ends it.

`beginning`, `changes` and `pace` decide; this file only puts the calls to log and database in
order. An LSN is confirmed to the database only after the log has committed the changes before it.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from drumlin.capture.changes import Changes, RowsNeeded, Table
from drumlin.capture.database import catalog, connections, failover
from drumlin.capture.database.failover import Identity
from drumlin.capture.database.stream import Stream
from drumlin.capture.database.waiting import Stopped
from drumlin.capture.errors import CaptureRefused, CaptureReplaced, DatabaseLost
from drumlin.capture.log import output as outputs
from drumlin.capture.log.kept_rows import TopicRows
from drumlin.capture.log.names import Names
from drumlin.capture.log.output import Output
from drumlin.capture.log.position import Definition, Position
from drumlin.capture.messages.lsn import lsn_text, parse_lsn
from drumlin.capture.running import following, plan, wal_limit, watching
from drumlin.capture.running.beginning import (
    FromSnapshot,
    FromStream,
    beginning,
    check_form,
    has_changed_timeline,
)
from drumlin.capture.running.following import Following
from drumlin.capture.running.heeding import BeginAgain
from drumlin.capture.running.options import CaptureOptions
from drumlin.capture.running.plan import Found
from drumlin.capture.running.progress import Phase, Progress
from drumlin.capture.running.reading import Reading
from drumlin.capture.running.snapshot_run import SnapshotRun, create_topics
from drumlin.capture.running.wal_limit import TooMuchWal
from drumlin.capture.values.types import Types
from drumlin.client.errors import BrokerUnreachable, RequestRefused, RequestTimedOut

if TYPE_CHECKING:
    import psycopg

    from drumlin.client.client import Client

_WAIT_S: Final = 0.1


class Session:
    """State kept between connections: the name of the run, the topics whose rows it needs."""

    def __init__(
        self, options: CaptureOptions, client: Client, run: str, progress: Progress
    ) -> None:
        self.options, self._client, self.run = options, client, run
        self._names, self._progress = Names(options.name), progress
        self._needed: set[str] = set()
        #: By oid, tables reported as not captured: what `plan.why_not` said of them.
        self._left_out: dict[int, str | None] = {}
        self._has_begun = self._is_paused_told = self._is_failover_told = False
        #: Whether database and log were ever reached, so their addresses must be right.
        self.has_connected = self.has_reached_log = False
        #: The number of commits since the process began: it shows progress.
        self.commits = 0

    def go(self) -> None:
        """Capture until asked to stop.

        Raises:
            RowsNeeded, DatabaseLost, ClientError: another call may continue.
            CaptureError: something must be fixed before the capture may continue.
        """
        try:
            self._go()
        except TooMuchWal as error:
            raise wal_limit.refusal(self.options, error.kept_bytes) from None
        except RequestRefused as error:
            was_there = self._has_begun or self._is_paused_told
            if was_there and not outputs.has_own_topic(self._client, self._names):
                raise CaptureReplaced("this capture was removed meanwhile") from error
            raise

    def _go(self) -> None:
        with contextlib.closing(connections.connect(self.options.url)) as connection:
            self.has_connected = True
            if self._has_begun and catalog.server(connection).is_in_recovery:
                raise DatabaseLost("the server is a standby, and was not promoted yet")
            position, known = self._look_into_log(connection)
            self.has_reached_log = True
            wal_limit.check(connection, self.options)
            check_form(known, self.options.form.name)
            if known is not None and known.is_paused:
                self._wait_for_resume(connection)
                return
            was_interrupted = position is not None
            found = plan.look(connection, self.options, self._names, known, was_interrupted)
            if known is None:
                form = self.options.form.name
                topics = found.definition(self.options.prefix, self._names.topic, form).topics
                outputs.check_own(self._client, self._names, topics)
            # From here on, another capture of this name is fenced.
            outputs.create_own_topic(self._client, self._names)
            output = Output(self._client, self._names)
            try:
                with contextlib.suppress(Stopped):
                    self._go_with(connection, output)
            finally:
                output.abort()

    def _look_into_log(
        self, connection: psycopg.Connection[Any]
    ) -> tuple[Position | None, Definition | None]:
        try:
            self._check_not_replaced()
            return self._known()
        except (BrokerUnreachable, RequestTimedOut):
            # While the cluster is unreachable, the kept WAL grows.
            wal_limit.check(connection, self.options)
            raise

    def _wait_for_resume(self, connection: psycopg.Connection[Any]) -> None:
        if not self._is_paused_told:
            self.options.tell("paused, until `drumlin capture resume`")
        self._is_paused_told = True
        self._progress.began(Phase.PAUSED)
        look_at_s = time.monotonic() + following.LOOK_S
        while not self.options.should_stop():
            time.sleep(_WAIT_S)
            if time.monotonic() >= look_at_s:
                look_at_s = time.monotonic() + following.LOOK_S
                _, known = self._look_into_log(connection)
                wal_limit.check(connection, self.options)
                self._progress.kept_bytes = catalog.kept_wal_bytes(connection, self._names.slot)
                if known is None:
                    raise CaptureReplaced("this capture was removed meanwhile")
                if not known.is_paused:
                    self._is_paused_told = False
                    return

    def _known(self) -> tuple[Position | None, Definition | None]:
        """The position, and the definition of a capture whose snapshot is complete."""
        if not outputs.has_own_topic(self._client, self._names):
            return None, None
        position = outputs.read_position(self._client, self._names)
        if position is not None and position.binlog is not None:
            raise CaptureRefused(f"capture {self._names.name} is of a MariaDB: take another --name")
        if position is None or position.lsn is None:
            return position, None
        return position, outputs.read_definition(self._client, self._names)

    def _check_not_replaced(self) -> None:
        """Check that no other process has replaced this one, which must then not fence it."""
        if self._has_begun:
            if not outputs.has_own_topic(self._client, self._names):
                raise CaptureReplaced("this capture was removed meanwhile")
            position = outputs.read_position(self._client, self._names)
            if position is not None and position.run != self.run:
                raise CaptureReplaced("another capture of this name has begun meanwhile")

    def _go_with(self, connection: psycopg.Connection[Any], output: Output) -> None:
        names, should_stop = self._names, self.options.should_stop
        # The predecessor is fenced, so position and definition can no longer change.
        position = outputs.read_position(self._client, names)
        definition = outputs.read_definition(self._client, names)
        is_anew = position is None or position.lsn is None
        if definition is not None and definition.is_paused and not is_anew:
            raise BeginAgain
        known = None if is_anew else definition
        found = plan.look(connection, self.options, names, known, position is not None)
        check_form(known, self.options.form.name)
        begin = self._beginning(position, definition, found)
        if isinstance(begin, FromSnapshot):
            form = self.options.form.name
            definition = found.definition(self.options.prefix, names.topic, form)
            self._progress.began(Phase.SNAPSHOT)
            self._progress.unread_tables = len(definition.tables)
            output.commit(Position(self.run, None), definition)
        else:
            assert definition is not None
            more = self._more(found, definition)
            definition = definition.with_tables(more)
            reached = Position(self.run, begin.lsn, found.server.timeline, begin.changed_lsn)
            reached = replace(reached, counts=self._progress.counts())
            output.commit(reached, definition if more else None)
        self._has_begun = True
        # A fenced predecessor may still hold the slot.
        wal_limit.end_reader(connection, names.slot)
        if isinstance(begin, FromSnapshot):
            plan.publish(connection, found, names, should_stop)
            plan.publish_added(connection, found, definition, names, should_stop)
            self._check_not_fenced()
            if begin.drops_slot:
                catalog.rows(connection, "SELECT pg_drop_replication_slot(%s)", (names.slot,))
            taken = SnapshotRun(self.options, names, self._client, output, self.run, self._progress)
            lsn, definition = taken.take(connection, found, definition)
            begin = FromStream(lsn, lsn)
        else:
            plan.publish_added(connection, found, definition, names, should_stop)
            create_topics(self._client, definition, self.options.partitions)
            definition = self._watched(connection, output, definition, reached)
            self._keep_on_standbys(found)
            self.options.tell(f"continuing at {lsn_text(begin.lsn)}")
            self._tell_tables(found)
        self.commits += 1
        self._tell_of_standbys(connection)
        self._follow(connection, output, definition, found.identity, begin)

    def _beginning(
        self, position: Position | None, definition: Definition | None, found: Found
    ) -> FromSnapshot | FromStream:
        ended: Mapping[int, int] = {}
        if has_changed_timeline(position, found.server):
            with contextlib.closing(failover.connect(self.options.url, found.identity)) as asked:
                ended = failover.ended_timelines(asked, found.server.timeline)
        try:
            return beginning(
                position, definition, found.slot, found.server, self._names.slot, ended
            )
        except CaptureRefused:
            if outputs.read_position(self._client, self._names) != position:
                # Fenced meanwhile: the other capture has moved position and slot.
                raise BeginAgain from None
            raise

    def _more(self, found: Found, definition: Definition) -> list[Table]:
        """The tables to add to an existing capture."""
        # A new table takes over the topic of a dropped table with the same name.
        present = {each.oid for each in found.tables}
        others = [each for each in definition.tables if each.oid in present]
        more: list[Table] = []
        for each in found.added:
            table = plan.as_table(each, self.options.prefix)._replace(is_read=False)
            try:
                plan.check_topics([*others, *more, table], self._names.topic)
                outputs.check_own(self._client, self._names, [table.topic])
            except CaptureRefused as error:
                if each.oid not in self._left_out:
                    self.options.tell(f"not captured: {error}")
                self._left_out[each.oid] = None
            else:
                more.append(table)
        return more

    def _tell_tables(self, found: Found) -> None:
        for oid, why in found.left_out.items():
            if self._left_out.get(oid) != why:
                self.options.tell(f"not captured, as it came later: {why}")
        self._left_out.update(found.left_out)

    def _watched(
        self,
        connection: psycopg.Connection[Any],
        output: Output,
        definition: Definition,
        reached: Position,
    ) -> Definition:
        """The definition with changes made meanwhile that the stream does not show."""
        ids, leaves = output.topic_ids(definition.topics), catalog.leaves(connection)
        has_older_rows = partial(catalog.has_older_rows, connection, self.options.should_stop)
        now, told = watching.with_topics(definition, ids)
        now, more = watching.with_leaves(now, leaves, has_older_rows)
        if now is not definition:
            output.commit(reached, now)
        for each in (*told, *more):
            self.options.tell(each)
        return now

    def _keep_on_standbys(self, found: Found) -> None:
        if self.options.is_failover and found.slot is not None and not found.slot.is_failover:
            with contextlib.closing(failover.connect(self.options.url, found.identity)) as asked:
                failover.keep_on_standbys(asked, self._names.slot)

    def _tell_of_standbys(self, connection: psycopg.Connection[Any]) -> None:
        if (
            self.options.is_failover
            and not self._is_failover_told
            and not failover.waits_for_standbys(connection)
        ):
            self.options.tell(
                "synchronized_standby_slots is empty: the topics may be ahead of a standby that is "
                "promoted, and the capture then refuses to go on; have it name the standby's slot"
            )
        self._is_failover_told = True

    def _check_slot(self, connection: psycopg.Connection[Any], lsn: int) -> None:
        """Check that the slot has all changes after this LSN, now that nobody can advance it.

        The server does not refuse an LSN before the slot's: it silently begins at the slot's.
        """
        slot = catalog.slot(connection, self._names.slot)
        if slot is None or parse_lsn(slot.confirmed_lsn or "0/0") > lsn:
            raise BeginAgain

    def _check_not_fenced(self) -> None:
        """Check that this capture was not fenced: it must not replace its successor's slot."""
        position = outputs.read_position(self._client, self._names)
        if position is None or position.run != self.run:
            raise BeginAgain

    def _follow(
        self,
        connection: psycopg.Connection[Any],
        output: Output,
        definition: Definition,
        identity: Identity,
        begin: FromStream,
    ) -> None:
        unread, should_stop = definition.unread, self.options.should_stop
        with contextlib.ExitStack() as stack:
            rows = stack.enter_context(contextlib.closing(TopicRows(self.options.form)))
            for topic in sorted(self._needed | {each.topic for each in unread}):
                rows.load(self._client, topic)
            types = Types(catalog.types(connection))
            publication, needed, form = self._names.publication, self._needed, self.options.form
            reading = Reading(
                connection, publication, unread, types, rows, needed, should_stop, form
            )
            on_truncate = self.options.on_truncate
            changes = Changes(
                definition.tables,
                types,
                rows,
                begin.lsn,
                on_truncate,
                reading,
                form,
                definition.database,
            )
            slot = self._names.slot
            stream = Stream(self.options.url, identity, slot, publication, begin.lsn)
            stack.enter_context(contextlib.closing(stream))
            self._check_slot(connection, begin.lsn)
            current = Following(
                self.options,
                self.run,
                connection,
                output,
                types,
                changes,
                stream,
                identity.timeline,
                begin.changed_lsn,
                definition,
                reading,
                self._left_out,
                self._progress,
            )
            try:
                self._progress.began(Phase.STREAM)
                current.go()
            except RowsNeeded as needed:
                self._needed.add(needed.topic)
                raise
            finally:
                self.commits += current.commits
