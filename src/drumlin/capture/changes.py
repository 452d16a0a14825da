"""Converts the replication stream's messages, which are changes in the database, to records. Pure.

A delete becomes a tombstone; a changed key becomes a tombstone and a new record. The server does
not send unchanged large values: they are taken from the old row if the server has sent it, or else
from the topic. They are never replaced by a null.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

from drumlin.capture.errors import CaptureError
from drumlin.capture.messages.pgoutput import (
    UNCHANGED,
    Begin,
    Commit,
    Delete,
    Insert,
    Message,
    Origin,
    Relation,
    Row,
    Truncate,
    Type,
    Update,
)
from drumlin.capture.values.form import Form, PlainJson
from drumlin.capture.values.record import Data, Op, Place, Record, shown
from drumlin.capture.values.rows import RowFormat, StillUnknown, filled
from drumlin.capture.values.types import Types, key_kind


class OnTruncate(StrEnum):
    """The reaction to the truncation of a captured table."""

    STOP = "stop"
    IGNORE = "ignore"
    TOMBSTONES = "tombstones"


class Table(NamedTuple):
    """A captured table: the columns of its key, and the topic of its rows."""

    oid: int
    schema: str
    name: str
    topic: str
    key: tuple[str, ...]
    key_kinds: tuple[str, ...]  # of the key columns, as from `key_kind`
    is_read: bool = True  # False: the topic has only rows that have changed since it was added
    topic_id: str | None = None  # None: not known yet
    leaves: tuple[int, ...] | None = None  # the oids of its partitions; None: not known yet

    @property
    def full_name(self) -> str:
        return f"{self.schema}.{self.name}"


class KeptRows(Protocol):
    """The last row of every key of those topics whose rows are needed."""

    def keeps(self, topic: str) -> bool: ...
    def get(self, topic: str, key: Data) -> Data | None: ...
    def put(self, topic: str, key: Data, value: Data | None) -> None: ...
    def keys(self, topic: str) -> Iterator[Data]: ...


class Unread(Protocol):
    """Tables that are being read while the stream continues. `KeptRows` has their topics' rows."""

    def reads(self, topic: str) -> bool: ...
    def changed(self, table: Table, key: Data) -> None: ...
    def held(self, topic: str, key: Data) -> Data | None: ...
    def is_sure(self, topic: str, key: Data) -> bool: ...
    def unsure(self, table: Table, key: Data) -> None: ...
    def missed(self, table: Table) -> None: ...
    def emptied(self, table: Table) -> None: ...


class RowsNeeded(Exception):
    """A change can only be written if the rows of this topic are kept."""

    def __init__(self, topic: str) -> None:
        super().__init__(topic)
        self.topic = topic


class UnknownTable(CaptureError):
    """A change of a table that has no topic. Nothing was done yet."""

    def __init__(self, oid: int, name: str) -> None:
        super().__init__(
            f"table {name} was added to the publication, and its earlier rows are in no topic:"
            f" ALTER PUBLICATION ... DROP TABLE {name}, or start again with --tables that "
            "match it"
        )
        self.oid = oid


class Changes:
    """Converts the messages of one connection, in their order."""

    def __init__(
        self,
        tables: Iterable[Table],
        types: Types,
        rows: KeptRows,
        start_lsn: int,
        on_truncate: OnTruncate = OnTruncate.STOP,
        unread: Unread | None = None,
        form: Form | None = None,
        database: str = "",
    ) -> None:
        self._tables: Mapping[int, Table] = {each.oid: each for each in tables}
        self._types = types
        self._rows = rows
        self._on_truncate = on_truncate
        self._unread = unread
        self._form: Form = PlainJson() if form is None else form
        self._formats: dict[int, RowFormat] = {}
        self._relations: dict[int, Relation] = {}
        self._others: dict[int, str] = {}
        self._gone: set[int] = set()
        self._begin: Begin | None = None
        self._is_past = False
        self._database = database
        self._place: Place = {}
        #: All transactions that end before this LSN were converted.
        self.end_lsn = start_lsn

    @property
    def in_transaction(self) -> bool:
        return self._begin is not None

    @property
    def place(self) -> Place:
        """The position of the current transaction; one object for all of its changes."""
        return self._place

    @property
    def is_past(self) -> bool:
        """Whether the current transaction was converted before.

        Raises:
            CaptureError: there is none.
        """
        if self._begin is None:
            raise CaptureError("a change outside of a transaction")
        return self._is_past

    @property
    def time_ms(self) -> int:
        """The time at which the current transaction was committed."""
        return 0 if self._begin is None else self._begin.time_us // 1000

    def mark(self) -> Any:
        """The present state of the conversion, for `go_back`."""
        return self._begin, self._is_past, self._place, self.end_lsn

    def go_back(self, mark: Any) -> None:
        """Return to the mark: forget the transactions that began and ended since."""
        self._begin, self._is_past, self._place, self.end_lsn = mark

    def plain_table(self, oid: int) -> tuple[Table, RowFormat] | None:
        """A table whose rows can be written independently of other rows, and their format."""
        table, shape = self._tables.get(oid), self._formats.get(oid)
        if table is None or shape is None or self._rows.keeps(table.topic):
            return None
        return None if self._unread_with(table.topic) is not None else (table, shape)

    def leave_out(self, oid: int) -> None:
        """Take no changes of a table that was dropped before it had a topic."""
        self._gone.add(oid)

    def unknown_types(self, relation: Relation) -> set[int]:
        """The types of the relation's columns that must be looked up first, as they may be new."""
        return {each.type_oid for each in relation.columns if each.type_oid not in self._types}

    def take(self, message: Message) -> Iterable[Record]:
        """The records that a message adds to the topics.

        Raises:
            RowsNeeded: the message's transaction must not be committed until the rows are kept.
            TypesChanged: nothing was done yet: call it again after the types are read and `renew`.
            UnknownTable: likewise, after `leave_out` if the table was dropped.
            CaptureError: the change cannot be written; the message says why, and what to do.
        """
        if isinstance(message, Begin):
            self._take_begin(message)
        elif isinstance(message, Commit):
            self._take_commit(message)
        elif isinstance(message, Relation):
            self._take_relation(message)
        elif isinstance(message, Origin | Type):
            pass
        elif self._begin is None:
            raise CaptureError(f"a change outside of a transaction: {type(message).__name__}")
        elif self._is_past or (self._gone and self._is_of_gone(message)):
            pass
        elif type(message) is Insert:  # the most frequent kind has a fast path
            table, shape = self._known(message.oid)
            key = self._key(shape, message.new)
            time_ms = self._begin.time_us // 1000
            record = Record(table.topic, key, shape.value(message.new), time_ms)
            if self._rows.keeps(table.topic):
                return self._noted(table, iter((record,)))
            return (record,)
        else:
            return self._changed(message, self._begin.time_us // 1000)
        return ()

    def _take_begin(self, begin: Begin) -> None:
        if self._begin is not None:
            raise CaptureError("a transaction begins inside of another")
        self._begin = begin
        lsn = begin.commit_lsn
        self._place = {
            "db": self._database,
            "ts_us": begin.time_us,
            "txId": begin.xid,
            "lsn": lsn,
            "sequence": f'["{self.end_lsn}","{lsn}"]',
        }
        # The server skips confirmed transactions; if it ever does not, none is written twice.
        self._is_past = begin.commit_lsn < self.end_lsn

    def _take_commit(self, commit: Commit) -> None:
        if self._begin is None or self._begin.commit_lsn != commit.commit_lsn:
            raise CaptureError("a transaction ends that did not begin")
        self._begin = None
        self.end_lsn = max(self.end_lsn, commit.end_lsn)

    def _take_relation(self, relation: Relation) -> None:
        name = f"{relation.schema}.{relation.name}"
        table = self._tables.get(relation.oid)
        if table is None:
            # The server also sends relations of partitions, but no change refers to these.
            self._others[relation.oid] = name
            return
        names = [each.name for each in relation.columns]
        flagged = {each.name for each in relation.columns if each.is_key}
        is_full = relation.identity == "f"
        if not (set(table.key) <= set(names) if is_full else flagged == set(table.key)):
            now = "has no key" if not flagged else f"has the key ({', '.join(sorted(flagged))})"
            raise CaptureError(
                f"table {table.full_name} was captured by the key ({', '.join(table.key)}) and now "
                f"{now}: ALTER it back, or run `drumlin capture remove` and begin anew into "
                "topics of another --prefix"
            )
        self._check_kinds(table, relation)
        self._relations[relation.oid] = relation
        self._make_format(table, relation)

    def _make_format(self, table: Table, relation: Relation) -> None:
        columns = self._types.columns(
            (each.name, each.type_oid, each.modifier) for each in relation.columns
        )
        self._formats[relation.oid] = self._form.rows_of(
            table.full_name, table.topic, columns, table.key, table.schema
        )

    def renew(self) -> None:
        """Make the formats again, as types have changed without a message in the stream."""
        for oid, relation in self._relations.items():
            self._make_format(self._tables[oid], relation)

    def _check_kinds(self, table: Table, relation: Relation) -> None:
        kinds = {each.name: key_kind(each.type_oid, each.modifier) for each in relation.columns}
        for name, kind in zip(table.key, table.key_kinds, strict=True):
            if kinds[name] != kind:
                raise CaptureError(
                    f"table {table.full_name}: the type of {name!r} has changed, which is part of "
                    "the key, so that keys may be written otherwise than in the topic: ALTER it "
                    "back, or run `drumlin capture remove` and begin anew"
                )

    def _table(self, oid: int) -> Table:
        table = self._tables.get(oid)
        if table is None:
            raise UnknownTable(oid, self._others.get(oid, f"of oid {oid}"))
        return table

    def _noted(self, table: Table, records: Iterator[Record]) -> Iterator[Record]:
        unread = self._unread_with(table.topic)
        for record in records:
            topic, key, value = record[:3]
            if unread is not None:
                unread.changed(table, key)
                if value is None and self._rows.get(topic, key) is None:
                    continue  # the row was not read before it was deleted
            if self._rows.keeps(topic):
                self._rows.put(topic, key, value)
            yield record

    def _is_of_gone(self, message: Message) -> bool:
        return isinstance(message, Insert | Update | Delete) and message.oid in self._gone

    def _unread_with(self, topic: str) -> Unread | None:
        return self._unread if self._unread is not None and self._unread.reads(topic) else None

    def _changed(self, message: Message, time_ms: int) -> Iterator[Record]:
        if isinstance(message, Truncate):
            tables = [self._table(oid) for oid in message.oids if oid not in self._gone]
            for table in tables:
                yield from self._noted(table, self._truncated(table, time_ms))
        elif isinstance(message, Delete):
            table, shape = self._known(message.oid)
            key, before = self._key(shape, message.old), shape.before(message.old)
            record = Record(table.topic, key, None, time_ms, Op.DELETE, before)
            yield from self._noted(table, iter((record,)))
        elif isinstance(message, Update):
            table, shape = self._known(message.oid)
            yield from self._noted(table, self._updated(table, shape, message, time_ms))

    def _updated(
        self, table: Table, shape: RowFormat, update: Update, time_ms: int
    ) -> Iterator[Record]:
        new = filled(update.new, update.old)
        key = self._key(shape, new)
        old_key = key if update.old is None else self._key(shape, update.old)
        unread = self._unread_with(table.topic)
        was = shape.before(update.old)
        gone = Record(table.topic, old_key, None, time_ms, Op.DELETE, was)
        before, is_sure = None, True
        if UNCHANGED in new:
            if not self._rows.keeps(table.topic):
                raise RowsNeeded(table.topic)
            before = self._before(shape, table.topic, old_key)
            is_sure = unread is None or unread.is_sure(table.topic, old_key)
            if unread is not None and not is_sure and unread.held(table.topic, old_key):
                unread.missed(table)
        try:
            value = shape.value(new, before)
        except StillUnknown as unknown:
            if unread is not None:
                # If the topic does not have the row yet, a later chunk adds it.
                if old_key != key or before is not None:
                    unread.missed(table)
                if old_key != key:
                    yield gone
                return
            raise CaptureError(
                f"table {table.full_name}, column {unknown.column!r}: a large value did not change,"
                f" so that PostgreSQL does not send it, and topic {table.topic} has no earlier one "
                f"under the key {shown(old_key)}: run `drumlin capture reread --tables "
                f"{table.full_name}`, then start again; ALTER TABLE {table.full_name} "
                "REPLICA IDENTITY FULL avoids it"
            ) from None
        if old_key != key:
            yield gone
            yield Record(table.topic, key, value, time_ms)
        else:
            yield Record(table.topic, key, value, time_ms, Op.UPDATE, was)
        if unread is not None and not is_sure:
            # The topic's row may be outdated: a later chunk corrects it.
            unread.unsure(table, key)
            if old_key != key:
                unread.missed(table)

    def _before(self, shape: RowFormat, topic: str, key: Data) -> Mapping[str, Any] | None:
        unread = self._unread_with(topic)
        kept = None if unread is None else unread.held(topic, key)
        if kept is None:
            kept = self._rows.get(topic, key)
        try:
            return None if kept is None else shape.earlier(kept)
        except ValueError as error:
            raise CaptureError(
                f"topic {topic}: the value under the key {shown(key)} is no row of a capture "
                f"({error}): "
                "somebody else has written to this topic"
            ) from None

    def _truncated(self, table: Table, time_ms: int) -> Iterator[Record]:
        if self._on_truncate is OnTruncate.STOP:
            raise CaptureError(
                f"table {table.full_name} was truncated: start again with --on-truncate tombstones "
                "(deletes all of its keys in the topic) or ignore (keeps them)"
            )
        if (unread := self._unread_with(table.topic)) is not None:
            unread.emptied(table)
        if self._on_truncate is OnTruncate.TOMBSTONES:
            if not self._rows.keeps(table.topic):
                raise RowsNeeded(table.topic)
            for key in self._rows.keys(table.topic):
                yield Record(table.topic, key, None, time_ms, Op.DELETE)

    def _known(self, oid: int) -> tuple[Table, RowFormat]:
        table = self._table(oid)
        shape = self._formats.get(oid)
        if shape is None:
            raise CaptureError(f"table {table.full_name}: a change before its columns were told")
        return table, shape

    def _key(self, shape: RowFormat, row: Row) -> Data:
        key = shape.key(row)
        if key is None:
            raise CaptureError(f"table {shape.table}: a change does not tell its whole key")
        found: Data = key
        return found
