"""The first phase of a capture: copies the tables, as of the slot's creation, into the topics.

If a topic already holds rows, from an interrupted snapshot or a removed capture, only the
differences are written: changed rows, and tombstones for rows that no longer exist.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from drumlin.capture.database import catalog, connections, failover, snapshot
from drumlin.capture.database.catalog import FoundTable
from drumlin.capture.database.waiting import Stopped
from drumlin.capture.errors import CaptureError
from drumlin.capture.log.output import Output, topic_ids
from drumlin.capture.log.position import Definition, Position
from drumlin.capture.messages.lsn import lsn_text
from drumlin.capture.running import wal_limit, watching
from drumlin.capture.running.following import LOOK_S
from drumlin.capture.running.heeding import BeginAgain
from drumlin.capture.running.options import CaptureOptions
from drumlin.capture.running.plan import Found
from drumlin.capture.running.progress import Progress
from drumlin.capture.running.table_copy import copy_table
from drumlin.capture.values.record import Place, Record, place_of
from drumlin.capture.values.types import Types

if TYPE_CHECKING:
    import psycopg

    from drumlin.capture.log.names import Names
    from drumlin.client.client import Client

#: The size of a snapshot's transactions.
_COMMIT_BYTES: Final = 4 << 20
_COMPACTED: Final = {"cleanup.policy": "compact"}


class SnapshotRun:
    """One pass over all tables."""

    def __init__(
        self,
        options: CaptureOptions,
        names: Names,
        client: Client,
        output: Output,
        run: str,
        progress: Progress,
    ) -> None:
        self._options, self._names, self._client = options, names, client
        self._output, self._run, self._progress = output, run, progress
        self._form = options.form
        self._place: Place = {}
        self._check_at_s = 0.0

    def take(
        self, connection: psycopg.Connection[Any], found: Found, definition: Definition
    ) -> tuple[int, Definition]:
        """Copy all tables; returns the LSN at which the stream continues, and the definition.

        Raises:
            DatabaseLost, CaptureError, ClientError, BeginAgain: the snapshot must be taken again.
            TooMuchWal: the server keeps more WAL than the limit allows.
            Stopped: the capture was asked to stop.
        """
        create_topics(self._client, definition, self._options.partitions)
        ids = topic_ids(self._client, definition.topics)
        replication = failover.connect(self._options.url, found.identity)
        with contextlib.closing(replication):
            should_stop = self._options.should_stop
            is_failover = self._options.is_failover
            lsn, name = snapshot.create_slot(
                replication, self._names.slot, is_failover, should_stop
            )
            tables = snapshot.take_over(
                connection, name, self._names.publication, found.tables, should_stop
            )
        leaves = catalog.leaves(connection)
        self._place = place_of(definition.database, "true", lsn)
        types = Types(catalog.types(connection))
        topics = {each.oid: each.topic for each in definition.tables}
        for table in tables:
            count = self._take_table(connection, table, topics[table.oid], types)
            self._progress.unread_tables -= 1
            self._options.tell(f"{table.full_name}: {count:,} rows in topic {topics[table.oid]}")
        catalog.run(connection, "COMMIT")
        definition, _ = watching.with_topics(definition, ids)
        definition, _ = watching.with_leaves(definition, leaves, lambda _: None)
        if watching.has_lost_topic(definition, topic_ids(self._client, definition.topics)):
            raise BeginAgain
        self._commit(Position(self._run, lsn, found.server.timeline, lsn), definition)
        self._options.tell(f"the snapshot is complete, as of {lsn_text(lsn)}")
        return lsn, definition

    def _take_table(
        self, connection: psycopg.Connection[Any], table: FoundTable, topic: str, types: Types
    ) -> int:
        columns = types.columns(table.columns)
        shape = self._form.rows_of(table.full_name, topic, columns, table.key, table.schema)
        found = snapshot.read_table(connection, table, self._options.should_stop)
        return copy_table(self._client, topic, self._form, shape, found, self._send)

    def _send(self, record: Record) -> None:
        for each in (record,) if self._form.is_bare else self._form.written(record, self._place):
            self._output.send(each)
        if self._output.size_bytes >= _COMMIT_BYTES:
            if self._options.should_stop():
                raise Stopped
            self._commit(Position(self._run, None))
            self._check_wal()

    def _commit(self, position: Position, definition: Definition | None = None) -> None:
        count = self._output.record_count
        self._output.commit(replace(position, counts=self._progress.counts(count)), definition)
        self._progress.wrote(count, 0)

    def _check_wal(self) -> None:
        now_s = time.monotonic()
        if self._options.max_wal_bytes is not None and now_s >= self._check_at_s:
            self._check_at_s = now_s + LOOK_S
            # On another connection, as the snapshot's connection is busy sending rows.
            with contextlib.closing(connections.connect(self._options.url)) as connection:
                wal_limit.check(connection, self._options)


def create_topics(client: Client, definition: Definition, partitions: int) -> None:
    """Create the topics of the tables, unless they exist.

    Raises:
        CaptureError: a topic exists that deletes old records.
    """
    for table in definition.tables:
        client.create_topic(table.topic, partitions, configs=_COMPACTED, if_not_exists=True)
        policy = client.topic_configs(table.topic)["cleanup.policy"].value
        if policy != "compact":
            raise CaptureError(
                f"topic {table.topic} has cleanup.policy={policy}, which deletes rows that are "
                f"old: drumlin configs alter topic {table.topic} --set cleanup.policy=compact"
            )
