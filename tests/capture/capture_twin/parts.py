"""The capture of the product on the models: what it calls of database, log and clock."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from capture.capture_twin.database import COLUMNS, KEYS, TABLES, Sender, Server, Slot
from capture.capture_twin.log import Entry, Log
from capture.capture_twin.world import World
from drumlin.capture.changes import OnTruncate
from drumlin.capture.database import catalog, chunks, connections, failover, snapshot
from drumlin.capture.database.catalog import FoundTable, Publication
from drumlin.capture.database.chunks import Chunk, Seen
from drumlin.capture.database.failover import Identity
from drumlin.capture.errors import DatabaseChanged, DatabaseLost
from drumlin.capture.log import output as outputs
from drumlin.capture.log.position import Definition, Position
from drumlin.capture.messages.frames import Keepalive
from drumlin.capture.messages.lsn import lsn_text
from drumlin.capture.messages.pgoutput import Row
from drumlin.capture.messages.runs import TOGETHER
from drumlin.capture.running import (
    care,
    following,
    heeding,
    reading,
    session,
    snapshot_run,
    supervised,
    wal_limit,
)
from drumlin.capture.running.options import CaptureOptions, OnMaxWal
from drumlin.capture.running.progress import Progress
from drumlin.capture.values.form import PlainJson
from drumlin.capture.values.record import Columns, Record
from drumlin.capture.values.types import TypeInfo
from drumlin.client.errors import RequestTimedOut
from drumlin.client.transactions.errors import ProducerFenced, TransactionFailed

_ID = "drumlin.capture.twin"
_OIDS = frozenset(TABLES)
_TYPES = [TypeInfo(23, "int4", 0, 0), TypeInfo(25, "text", 0, 0)]


class _Connection:
    def __init__(self, server: Server) -> None:
        self.incarnation = server.incarnation
        self.rows: dict[tuple[int, int], tuple[int, str]] | None = None

    def close(self) -> None:
        """Nobody notices."""


class Parts:
    """The models, and what processes do with them."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.server = Server(world.random)
        self.log = Log(self.server)
        self.ignores_lsn = False
        self.is_touched = False  # somebody has advanced or dropped the slot

    # -- processes ---------------------------------------------------------------------------

    def capture(self, is_failover: bool) -> Callable[[Any], None]:
        def work(process: Any) -> None:
            options = CaptureOptions(
                url="model:",
                name="twin",
                tables=("*",),
                prefix="p",
                partitions=1,
                on_truncate=OnTruncate.TOMBSTONES,
                heartbeat_s=0.5,
                max_wal_bytes=None,
                on_max_wal=OnMaxWal.STOP,
                form=PlainJson(),
                is_failover=is_failover,
                metrics_listener=None,
                tell=self.world.note,
                should_stop=lambda: process.should_stop,
            )
            client: Any = _Client(self)
            run, progress = f"run of {process.name}", Progress(0)
            found = session.Session(options, client, run, progress)
            supervised._run(options, found, progress)

        return work

    def remove(self) -> None:
        """What `drumlin capture remove` does, while no capture is running."""
        self.log.position = self.log.definition = None
        self.log.epoch += 1
        self.server.slot = None
        self.is_touched = False

    # -- the database ------------------------------------------------------------------------

    def ask(self, connection: _Connection) -> None:
        """Whatever asks the database may find it gone, before or after its answer."""
        self.world.pause()
        if connection.incarnation != self.server.incarnation:
            raise DatabaseLost("the connection is lost")

    def connect(self, *_: Any, **__: Any) -> _Connection:
        self.world.pause()
        return _Connection(self.server)

    def connect_to(self, _: str, identity: Identity) -> _Connection:
        connection = self.connect()
        self.ask(connection)
        if Identity(self.server.system_id, self.server.timeline) != identity:
            raise DatabaseLost("another server has taken over meanwhile")
        return connection

    def server_now(self, connection: _Connection) -> catalog.Server:
        self.ask(connection)
        server = self.server
        return catalog.Server(
            170000, "logical", 8, 1, True, False, "shop", "me", server.system_id, True,
            lsn_text(server.lsn), server.timeline,
        )  # fmt: skip

    def slot(self, connection: _Connection, name: str) -> catalog.Slot | None:
        self.ask(connection)
        found = self.server.slot
        if found is None:
            return None
        pid = None if self.server.reader is None else 1
        confirmed = lsn_text(found.confirmed)
        return catalog.Slot(name, "pgoutput", "shop", pid, confirmed, None, found.is_failover)

    def run_statement(
        self, connection: _Connection, statement: str, _: Any = None
    ) -> list[tuple[Any, ...]]:
        self.ask(connection)
        if "pg_terminate_backend" in statement:
            self.server.reader = None
        elif "pg_drop_replication_slot" in statement:
            self._touch()
            self.server.slot = None
        self.world.pause()
        return []

    def _touch(self) -> None:
        """A capture that was fenced cannot know it before it does something to the slot."""
        position = self.log.position
        self.is_touched |= position is not None and position.lsn is not None

    def create_slot(self, connection: _Connection, *_: Any) -> tuple[int, str]:
        self.ask(connection)
        if self.server.slot is not None:
            raise DatabaseChanged("there is a slot already")
        lsn = self.server.lsn
        self._touch()
        self.server.slot = Slot(lsn, _[1], lsn)
        self.server.snapshots[f"snapshot {lsn}"] = self.server.rows
        self.world.pause()
        return lsn, f"snapshot {lsn}"

    def take_over(
        self, connection: _Connection, name: str, _: str, tables: Iterable[FoundTable], __: Any
    ) -> list[FoundTable]:
        self.ask(connection)
        if name not in self.server.snapshots:
            raise DatabaseChanged("the snapshot is gone")
        connection.rows = self.server.snapshots[name]
        return list(tables)

    def read_table(self, connection: _Connection, table: FoundTable, _: Any) -> Iterator[Row]:
        assert connection.rows is not None
        for key in range(KEYS):
            if (table.oid, key) in connection.rows:
                self.ask(connection)
                version, big = connection.rows[table.oid, key]
                yield [str(key), str(version), big]

    def seen(self, connection: _Connection) -> Seen:
        self.ask(connection)
        return Seen(self.server.next_xid, frozenset())

    def read_chunk(
        self, connection: _Connection, _: str, table: FoundTable, after: Any, *__: Any
    ) -> Chunk:
        self.ask(connection)
        first = -1 if after is None else int(after[0])
        rows = self.server.rows
        keys = [key for key in range(first + 1, KEYS) if (table.oid, key) in rows]
        found: list[Row] = [[str(key), *map(str, rows[table.oid, key])] for key in keys[:2]]
        return Chunk(found, len(keys) < 2, self.seen(connection), self.server.lsn)


class _Stream:
    def __init__(
        self, parts: Parts, _: str, identity: Identity, __: str, ___: str, lsn: int
    ) -> None:
        self._parts = parts
        self._connection = parts.connect_to("", identity)
        if parts.server.slot is None:
            raise DatabaseLost("there is no slot")
        if parts.server.reader is not None:
            raise DatabaseLost("the slot is in use")
        self._sender = Sender(parts.server, lsn, parts.ignores_lsn)
        parts.server.reader = self
        self._wants_answer = False
        self._ahead: tuple[bytes | None, int] | None = None
        self._timeline = identity.timeline

    def close(self) -> None:
        if self._parts.server.reader is self:
            self._parts.server.reader = None

    def _ask(self) -> None:
        self._parts.ask(self._connection)
        if self._parts.server.reader is not self:
            raise DatabaseLost("the server has ended the stream")

    def read(self, _: float) -> list[bytes] | Keepalive | None:
        """Runs of messages end anywhere."""
        self._ask()
        payloads: list[bytes] = []
        while self._ahead is not None or not payloads or self._parts.world.random.random() < 0.8:
            found, self._ahead = self._ahead, None
            if found is None:
                found = self._sender.next(self._wants_answer)
                self._wants_answer = False
            payload, lsn = (None, None) if found is None else found
            if payload is not None and (not payloads or payload[0] in TOGETHER):
                payloads.append(payload)
                if payload[0] in TOGETHER:
                    continue
            elif payloads:
                self._ahead = found
            elif lsn is not None:
                return Keepalive(lsn, self._parts.world.random.random() < 0.3)
            break
        return payloads or None

    def confirm(self, lsn: int, wants_answer: bool = False) -> None:
        self._ask()
        self._wants_answer |= wants_answer
        slot, log = self._parts.server.slot, self._parts.log
        assert slot is not None
        if lsn > slot.confirmed:
            slot.confirmed = lsn
            reached = log.position
            assert reached is not None and reached.lsn is not None, "nothing is committed"
            assert lsn <= reached.lsn, f"{lsn} is confirmed, and the topics are at {reached.lsn}"


class _Client:
    """What is asked of a client beside the functions of `output`."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts

    def create_topic(self, topic: str, *_: Any, **__: Any) -> None:
        self.parts.world.pause()
        topics = self.parts.log.topics
        topics.setdefault(topic, f"id {len(topics)} {self.parts.world.steps}")

    def topic_configs(self, _: str) -> dict[str, Any]:
        return {"cleanup.policy": SimpleNamespace(value="compact")}

    def offsets(self, topic: str, at: str = "latest") -> dict[int, int]:
        self.parts.world.pause()
        return {0: len(self.parts.log.entries.get(topic, ())) if at == "latest" else 0}

    def read_records(self, topic: str, **_: Any) -> Iterator[list[Entry]]:
        self.parts.world.pause()
        yield list(self.parts.log.entries.get(topic, ()))


class _Output:
    """The producer: it is fenced by the next one."""

    def __init__(self, client: _Client, _: Any) -> None:
        self._parts = client.parts
        self._parts.world.pause()
        self._parts.log.epoch += 1
        self._epoch = self._parts.log.epoch
        self._records: list[Record] = []
        self.record_count = self.size_bytes = 0
        self._parts.world.pause()

    def send(self, record: Record) -> None:
        self._records.append(record)
        self.record_count += 1
        self.size_bytes += self._parts.world.random.choice((10, 1000, 3_000_000))
        if self._parts.world.random.random() < 0.1:
            self._check()

    def append(self, columns: Columns) -> None:
        keys, values, times = columns.keys, columns.values, columns.times_ms
        for key, value, time_ms in zip(
            *map(pa.Array.to_pylist, (keys, values, times)), strict=True
        ):
            row = None if value is None else value.decode()
            self.send(Record(columns.topic, key.decode(), row, time_ms))

    def commit(self, position: Position, definition: Definition | None = None) -> None:
        self._check()
        log, world = self._parts.log, self._parts.world
        count = len(self._records)
        if {each.topic for each in self._records} - log.topics.keys():
            raise TransactionFailed("there is no such topic", _ID)
        world.note(f"commits {count} records at {position.lsn} of {position.timeline}")
        log.commit(self._records, position, definition)
        self._records = []
        self.record_count = self.size_bytes = 0
        if world.random.random() < 0.02:
            raise RequestTimedOut("no answer to the commit")
        world.pause()

    def abort(self) -> None:
        self._parts.world.pause()
        self._records = []

    def read_position(self) -> Position | None:
        self._parts.world.pause()
        return self._parts.log.position

    def read_definition(self) -> Definition | None:
        self._parts.world.pause()
        return self._parts.log.definition

    def topic_ids(self, topics: Iterable[str]) -> dict[str, str | None]:
        return _topic_ids(SimpleNamespace(parts=self._parts), topics)

    def _check(self) -> None:
        self._parts.world.pause()
        if self._epoch != self._parts.log.epoch:
            raise ProducerFenced("another producer has started", _ID)
        if self._parts.world.random.random() < 0.01:
            raise RequestTimedOut("no answer")


def _topic_ids(client: Any, topics: Iterable[str]) -> dict[str, str | None]:
    client.parts.world.pause()
    ids = client.parts.log.topics
    return {each: ids[each] for each in topics if each in ids}


def _found(oid: int) -> FoundTable:
    columns = tuple((each.name, each.type_oid, each.modifier) for each in COLUMNS)
    return FoundTable(
        oid, "s", TABLES[oid], "r", "d", True, True, True, ("id",), ("integer",), columns
    )


def put(parts: Parts, patch: pytest.MonkeyPatch) -> None:
    """Let the capture run on these parts."""
    log, world = parts.log, parts.world
    clock = SimpleNamespace(
        monotonic=lambda: world.now_s,
        sleep=world.sleep,
        time_ns=lambda: int(world.now_s * 1e9),
    )
    timed = (care, following, heeding, session, snapshot_run, supervised, wal_limit, reading)
    for module in timed:
        patch.setattr(module, "time", clock)
    patch.setattr(supervised, "random", world.random)
    patch.setattr(following, "LOOK_S", 0.5)
    patch.setattr(following, "FEW", 2)
    patch.setattr(connections, "connect", parts.connect)
    patch.setattr(failover, "connect", parts.connect_to)
    patch.setattr(failover, "ended_timelines", lambda *_: dict(parts.server.ended))
    patch.setattr(failover, "keep_on_standbys", lambda *_: None)
    patch.setattr(failover, "waits_for_standbys", lambda _: True)
    patch.setattr(catalog, "server", parts.server_now)
    patch.setattr(catalog, "slot", parts.slot)
    patch.setattr(catalog, "rows", parts.run_statement)
    patch.setattr(catalog, "run", parts.run_statement)
    patch.setattr(catalog, "tables", lambda *_: [_found(oid) for oid in TABLES])
    patch.setattr(catalog, "leaves", lambda _: [])
    patch.setattr(catalog, "types", lambda _: _TYPES)
    patch.setattr(catalog, "kept_wal_bytes", lambda *_: 0)
    patch.setattr(catalog, "flushed_and_kept", lambda *_: (parts.server.lsn, 0))
    patch.setattr(
        catalog, "publication", lambda *_: Publication(True, True, True, _OIDS, frozenset())
    )
    patch.setattr(snapshot, "create_slot", parts.create_slot)
    patch.setattr(snapshot, "take_over", parts.take_over)
    patch.setattr(snapshot, "read_table", parts.read_table)
    patch.setattr(chunks, "seen_now", parts.seen)
    patch.setattr(chunks, "read_chunk", parts.read_chunk)
    patch.setattr(reading, "_RETRY_S", -1.0)
    patch.setattr(session, "Stream", partial(_Stream, parts))
    for module in (outputs, session):
        patch.setattr(module, "Output", _Output)

    def told(value: Callable[[], Any]) -> Callable[..., Any]:
        def asked(*_: Any) -> Any:
            world.pause()
            return value()

        return asked

    patch.setattr(outputs, "has_own_topic", told(lambda: log.position is not None))
    patch.setattr(outputs, "create_own_topic", told(lambda: None))
    patch.setattr(outputs, "check_own", told(lambda: None))
    patch.setattr(outputs, "read_position", told(lambda: log.position))
    patch.setattr(outputs, "read_definition", told(lambda: log.definition))
    patch.setattr(snapshot_run, "topic_ids", _topic_ids)
