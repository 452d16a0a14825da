"""Converts the events of a binlog to records. Pure.

Groups of events, which are mostly transactions, begin with a GTID. The position in the binlog
advances when a group ends, and never within it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final, NamedTuple

from drumlin.capture.binlog_events import events, row_events, statements
from drumlin.capture.binlog_events.charsets import Charsets
from drumlin.capture.binlog_events.column_kinds import key_kind
from drumlin.capture.binlog_events.events import Event, Group, Query
from drumlin.capture.binlog_events.gtids import GtidPosition
from drumlin.capture.binlog_events.row_events import Column, RowChange, TableMap
from drumlin.capture.binlog_events.statements import Deed, Effect
from drumlin.capture.changes import KeptRows, OnTruncate, RowsNeeded, Table
from drumlin.capture.errors import CaptureError, CaptureRefused
from drumlin.capture.log.position import BinlogPosition
from drumlin.capture.values.form import Form, PlainJson
from drumlin.capture.values.kinds import Column as KindColumn
from drumlin.capture.values.record import Data, Op, Record
from drumlin.capture.values.rows import RowFormat

ANEW: Final = (
    "`drumlin capture remove`, then start again: the tables are read again, and the topics get "
    "what differs"
)
#: Statements' effects after which a table has a new name.
_MAKE: Final = (Deed.CREATED, Deed.CREATED_IF_MISSING, Deed.RENAMED)
_QUERIES: Final = (events.QUERY, events.QUERY_COMPRESSED, events.EXECUTE_LOAD_QUERY)


class GroupUndone(Exception):
    """A group was rolled back after its rows were sent: read it again, and skip its rows."""

    def __init__(self, gtid: str) -> None:
        super().__init__(gtid)
        self.gtid = gtid


class TableBorn(Exception):
    """A group creates a table and fills it: it must be captured before the group is read."""

    def __init__(self, full_name: str) -> None:
        super().__init__(full_name)
        self.full_name = full_name


class _Mapped(NamedTuple):
    """A captured table's columns, from its map in the binlog."""

    table: Table
    columns: list[Column]
    shape: RowFormat


class BinlogChanges:
    """Converts the events of one connection, in their order.

    `undone`: the GTIDs of groups that end with a rollback. `uuids`: the columns of type UUID by the
    table's full name. `wants`: whether to capture a table that is created (schema, name, and the
    kind of statement). `unborn`: captured tables whose creation is still ahead in the binlog.
    """

    def __init__(
        self,
        tables: Iterable[Table],
        charsets: Charsets,
        rows: KeptRows,
        start: BinlogPosition,
        on_truncate: OnTruncate = OnTruncate.STOP,
        undone: Iterable[str] = (),
        has_small_names: bool = False,
        uuids: Mapping[str, Collection[str]] = MappingProxyType({}),
        wants: Callable[[str, str, Deed], bool] = lambda *_: False,
        unborn: Iterable[str] = (),
    ) -> None:
        self._tables = {(each.schema, each.name): each for each in tables}
        self._schemas = {schema for schema, _ in self._tables}
        self._charsets, self._rows, self._on_truncate = charsets, rows, on_truncate
        self._undone = frozenset(undone)
        self._has_small_names = has_small_names
        self._uuids, self._wants = uuids, wants
        self._created: list[str] = []
        self.unborn = set(unborn)
        self._form: Form = PlainJson()
        self._maps: dict[int, _Mapped | None] = {}
        self._known: dict[Table, tuple[bytes, _Mapped]] = {}
        self._group: Group | None = None
        self._group_time_s = 0
        self._is_left_out = self._has_sent = False
        #: The start. Its last transaction, which the topics already have, must be the first one in
        #: the stream: this proves that it is the same binlog.
        self._expected = start
        self._is_recognized = start.last is None
        self._gtids = GtidPosition.parse(start.gtids if start.before is None else start.before)
        #: The position after the last complete group.
        self.position = start
        #: Whether a captured table was altered, so that its capture may no longer be possible.
        self.is_altered = False

    @property
    def in_group(self) -> bool:
        return self._group is not None

    def take(self, event: Event) -> Iterable[Record]:
        """The records that an event adds to the topics.

        Raises:
            RowsNeeded: the group must not be committed until the topic's rows are kept.
            GroupUndone, TableBorn: the group must not be committed.
            CaptureError: the change cannot be written; the message says why, and what to do.
        """
        kind = event.kind
        if kind == events.GTID:
            self._begin(events.group_of(event), event.time_s)
        elif kind == events.INCIDENT:
            raise CaptureRefused(f"the server has lost events of its binlog: {ANEW}")
        elif self._group is None:
            raise CaptureError("the binlog has a change outside of a group of events")
        elif kind in events.ROWS:
            return self._changed(event)
        elif kind == events.TABLE_MAP:
            self._map(row_events.table_map(event))
        elif kind == events.XID or kind == events.XA_PREPARE:
            self._end()
        elif kind in _QUERIES:
            return self._queried(events.query_of(event))
        return ()

    # -- groups ------------------------------------------------------------------------------

    def _begin(self, group: Group, time_s: int) -> None:
        if self._group is not None:
            raise CaptureError("the binlog has a group of events that begins inside of another")
        self._group, self._group_time_s = group, time_s
        self._has_sent = False
        gtid = str(group.gtid)
        self._is_left_out = gtid in self._undone
        if not self._is_recognized:
            if (gtid, time_s) != (self._expected.last, self._expected.last_time_s):
                raise CaptureRefused(
                    f"this is another binlog: after {self._expected.before or 'its beginning'} it "
                    f"has the transaction {gtid}, and the topics have another one, "
                    f"{self._expected.last}: {ANEW}"
                )
            self._is_left_out = True

    def _end(self) -> None:
        group = self._group
        assert group is not None
        self._group = None
        self._maps.clear()
        before = str(self._gtids)
        self._gtids = self._gtids.after(group.gtid)
        if not self._is_recognized:
            self._is_recognized = True
            # The expected position already includes the last transactions of the other domains.
            self._gtids = GtidPosition.parse(self._expected.gtids)
            return
        self.position = replace(
            self.position,
            gtids=str(self._gtids),
            before=before,
            last=str(group.gtid),
            last_time_s=self._group_time_s,
            prepared=self._prepared(group),
            created=(*self.position.created, *self._created),
        )
        self._created.clear()

    def _prepared(self, group: Group) -> tuple[str, ...]:
        if group.xid is None:
            return self.position.prepared
        others = [each for each in self.position.prepared if each != group.xid.hex()]
        return (*others, group.xid.hex()) if group.is_prepared else tuple(others)

    # -- statements --------------------------------------------------------------------------

    def _queried(self, query: Query) -> Iterable[Record]:
        group = self._group
        assert group is not None
        verb = statements.verb_of(query)
        if verb in ("COMMIT", "ROLLBACK") and not group.is_standalone:
            if verb == "ROLLBACK" and self._has_sent:
                raise GroupUndone(str(group.gtid))
            self._end()
        elif verb == "ROLLBACK TO" and self._has_sent:
            raise CaptureError(
                f"transaction {group.gtid} is rolled back in part, after a change of a table "
                f"without transactions: its rows cannot be captured: {ANEW}"
            )
        elif group.is_standalone:
            return self._took_statement(query, verb, group)
        elif not self._is_left_out:
            return list(self._effects(query, verb))
        return ()

    def _took_statement(self, query: Query, verb: str, group: Group) -> Iterator[Record]:
        if not self._is_left_out:
            is_known = group.xid is None or group.xid.hex() in self.position.prepared
            if verb == "XA COMMIT" and not is_known:
                raise CaptureRefused(
                    "an XA transaction is committed that was prepared before the capture began, "
                    f"so that its rows are not known: {ANEW}"
                )
            yield from self._effects(query, verb)
        self._end()

    def _effects(self, query: Query, verb: str) -> Iterator[Record]:
        for effect in statements.effects(query):
            if effect.deed is Deed.WRITTEN:
                if effect.schema is None or self._is_captured(effect.schema):
                    raise CaptureError(
                        f"the binlog has a statement ({verb.split()[0]} ...) in place of the rows "
                        "that it changed, as binlog_format was not 'ROW' in its session; it may "
                        f"have changed captured tables: {ANEW}"
                    )
            else:
                tables = self._touched(effect)
                for table in tables:
                    yield from self._touch(table, effect.deed)
                if not tables and effect.deed in _MAKE:
                    self._note_created(effect)

    def _is_captured(self, schema: str) -> bool:
        return (schema.lower() if self._has_small_names else schema) in self._schemas

    def _note_created(self, effect: Effect) -> None:
        """Note a new table. As it is empty now, the binlog will have all of its rows."""
        schema, name = effect.schema or "", effect.table or ""
        if self._has_small_names:
            schema, name = schema.lower(), name.lower()
        if self._wants(schema, name, effect.deed):
            assert self._group is not None
            if not self._group.is_standalone:
                raise TableBorn(f"{schema}.{name}")
            self._created.append(f"{schema}.{name}")
            self.is_altered = True

    def _touched(self, effect: Effect) -> list[Table]:
        schema, name = effect.schema or "", effect.table
        if self._has_small_names:
            schema, name = schema.lower(), None if name is None else name.lower()
        if name is None:
            return [each for each in self._tables.values() if each.schema == schema]
        table = self._tables.get((schema, name))
        return [] if table is None else [table]

    def _touch(self, table: Table, deed: Deed) -> Iterator[Record]:
        ignores = self._on_truncate is OnTruncate.IGNORE
        if deed in (Deed.ALTERED, Deed.CREATED, Deed.CREATED_IF_MISSING):
            self.unborn.discard(table.full_name)
            self.is_altered = True
        elif deed is Deed.RENAMED:
            raise CaptureError(
                f"table {table.full_name} was renamed, or another one was given its name: {ANEW}"
            )
        elif deed is Deed.ROWS_MOVED and not ignores:
            raise CaptureError(
                f"table {table.full_name} was altered so that rows came or went which the binlog "
                "does not name, as with a partition: start again with --on-truncate ignore (the "
                f"topic keeps the rows it has), or {ANEW}"
            )
        elif deed is Deed.EMPTIED and not ignores and table.full_name not in self.unborn:
            yield from self._emptied(table)

    def _emptied(self, table: Table) -> Iterator[Record]:
        if self._on_truncate is OnTruncate.STOP:
            raise CaptureError(
                f"table {table.full_name} was truncated or dropped: start again with --on-truncate "
                "tombstones (deletes all of its keys in the topic) or ignore (keeps them)"
            )
        if not self._rows.keeps(table.topic):
            raise RowsNeeded(table.topic)
        for key in self._rows.keys(table.topic):
            time_ms = self._group_time_s * 1000
            yield self._noted(Record(table.topic, key, None, time_ms, Op.DELETE))

    # -- rows --------------------------------------------------------------------------------

    def _map(self, found: TableMap) -> None:
        if self._is_left_out:
            return
        table = self._tables.get((found.schema, found.name))
        if table is None:
            self._maps[found.number] = None
            return
        known, parts = self._known.get(table), bytes(found.parts)
        if known is None or known[0] != parts:
            known = self._known[table] = (parts, self._mapped(found, table))
        self._maps[found.number] = known[1]

    def _mapped(self, found: TableMap, table: Table) -> _Mapped:
        columns, key = row_events.columns_of(
            found, self._charsets, self._uuids.get(table.full_name, ())
        )
        if set(key) != set(table.key):
            now = f"has the key ({', '.join(key)})" if key else "has no key"
            raise CaptureError(
                f"table {table.full_name} was captured by the key ({', '.join(table.key)}) and now "
                f"{now}: ALTER it back, or run `drumlin capture remove` and begin anew into topics "
                "of another --prefix"
            )
        kinds = {each.name: key_kind(each.kind) for each in columns}
        for name, kind in zip(table.key, table.key_kinds, strict=True):
            if kinds[name] != kind:
                raise CaptureError(
                    f"table {table.full_name}: the type of {name!r} has changed, which is part of "
                    "the key, so that keys may be written otherwise than in the topic: ALTER it "
                    "back, or run `drumlin capture remove` and begin anew into topics of another "
                    "--prefix"
                )
        kinds_of_all = [KindColumn(each.name, each.kind) for each in columns]
        shape = self._form.rows_of(table.full_name, table.topic, kinds_of_all, table.key)
        return _Mapped(table, columns, shape)

    def _changed(self, event: Event) -> Iterator[Record]:
        if self._is_left_out:
            return
        assert self._group is not None
        number = row_events.table_number(event)
        if number not in self._maps:
            raise CaptureError("the binlog has rows of a table whose columns were not told")
        mapped = self._maps[number]
        if mapped is None:
            return
        if self._group.is_prepared:
            raise CaptureError(
                f"table {mapped.table.full_name} is changed by an XA transaction, which is not "
                f"supported: {ANEW}"
            )
        name = mapped.table.full_name
        for change in row_events.row_changes(event, mapped.columns, name):
            self._has_sent = True
            yield from self._records(mapped, change)

    def _records(self, mapped: _Mapped, change: RowChange) -> Iterator[Record]:
        topic, time_ms = mapped.table.topic, self._group_time_s * 1000
        old = None if change.before is None else self._key(mapped, change.before)
        new = None if change.after is None else self._key(mapped, change.after)
        before = mapped.shape.before(change.before)
        if old is not None and old != new:
            yield self._noted(Record(topic, old, None, time_ms, Op.DELETE, before))
        if change.after is not None and new is not None:
            value = mapped.shape.value(change.after)
            op = (Op.UPDATE, before) if old == new else (Op.CREATE, None)
            yield self._noted(Record(topic, new, value, time_ms, *op))

    def _key(self, mapped: _Mapped, row: Iterable[str | None]) -> Data:
        key = mapped.shape.key(list(row))
        if key is None:
            raise CaptureError(f"table {mapped.table.full_name}: a row without a key")
        return key

    def _noted(self, record: Record) -> Record:
        if self._rows.keeps(record.topic):
            self._rows.put(record.topic, record.key, record.value)
        return record
