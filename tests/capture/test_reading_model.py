"""Reading beside the stream, against a database that is a model: every order of events may come."""

from __future__ import annotations

import json
import random
from typing import Any, NamedTuple

import pytest

from drumlin.capture.changes import Changes, OnTruncate, Table
from drumlin.capture.database import catalog, chunks
from drumlin.capture.database.catalog import FoundTable
from drumlin.capture.database.chunks import Chunk, Seen
from drumlin.capture.log.kept_rows import TopicRows
from drumlin.capture.messages.pgoutput import (
    UNCHANGED,
    Begin,
    Column,
    Commit,
    Delete,
    Insert,
    Message,
    Relation,
    Row,
    Update,
)
from drumlin.capture.running import reading
from drumlin.capture.running.reading import Reading
from drumlin.capture.values.record import Record
from drumlin.capture.values.types import TypeInfo, Types
from rig.depth import seeds

_TABLE = Table(1, "s", "t", "topic", ("id",), ("integer",), is_read=False)
_COLUMNS = (Column("id", 23, -1, True), Column("v", 23, -1, False), Column("big", 25, -1, False))
_RELATION = Relation(1, "s", "t", "d", _COLUMNS)
_FOUND = FoundTable(
    1, "s", "t", "r", "d", True, True, True, ("id",), ("integer",),
    (("id", 23, -1), ("v", 23, -1), ("big", 25, -1)),
)  # fmt: skip
_TYPES = Types([TypeInfo(23, "int4", 0, 0), TypeInfo(25, "text", 0, 0)])
_KEYS = 12


class _Row(NamedTuple):
    v: int
    big: str


class _Transaction:
    def __init__(self, xid: int, is_published: bool) -> None:
        self.xid, self.is_published = xid, is_published
        self.rows: dict[int, _Row | None] = {}
        self.messages: list[Message] = []


class _Database:
    """Transactions that lock the keys they write, and are seen some time after their commit."""

    def __init__(self, source: random.Random) -> None:
        self._source = source
        self._version = 0
        self.next_xid = 100
        self.rows: dict[int, _Row] = {}  # as new snapshots have it
        self.open: list[_Transaction] = []
        self.hidden: list[_Transaction] = []  # committed, not shown yet
        self.wal: list[_Transaction] = []
        self.is_published = False

    @property
    def lsn(self) -> int:
        return 1000 + 10 * len(self.wal)

    @property
    def seen(self) -> Seen:
        return Seen(self.next_xid, frozenset(each.xid for each in (*self.open, *self.hidden)))

    def begin(self) -> None:
        self.open.append(_Transaction(self.next_xid, self.is_published))
        self.next_xid += 1

    def change(self) -> None:
        transaction = self._source.choice(self.open)
        others = [each for each in (*self.open, *self.hidden) if each is not transaction]
        free = [key for key in range(_KEYS) if not any(key in each.rows for each in others)]
        if len(free) < 2:
            return
        key, other = self._source.sample(free, 2)
        self._version += 1
        before = self._row(transaction, key)
        transaction.is_published = self.is_published
        kind = self._source.random()
        if before is None:
            row = _Row(self._version, f"big {self._version}")
            self._write(transaction, {key: row}, Insert(1, [str(key), str(row.v), row.big]))
        elif kind < 0.25:
            self._write(transaction, {key: None}, Delete(1, [str(key), None, None]))
        elif kind < 0.5 and self._row(transaction, other) is None:
            row = before._replace(v=self._version)
            old: Row = [str(key), None, None]
            new: Row = [str(other), str(row.v), UNCHANGED]
            message = Update(1, old, new)
            self._write(transaction, {key: None, other: row}, message)
        else:
            row = before._replace(v=self._version)
            self._write(transaction, {key: row}, Update(1, None, [str(key), str(row.v), UNCHANGED]))

    def _row(self, transaction: _Transaction, key: int) -> _Row | None:
        return transaction.rows[key] if key in transaction.rows else self.rows.get(key)

    def _write(
        self, transaction: _Transaction, rows: dict[int, _Row | None], message: Message
    ) -> None:
        transaction.rows |= rows
        if self.is_published:
            transaction.messages.append(message)

    def commit(self) -> None:
        transaction = self.open.pop(self._source.randrange(len(self.open)))
        self.wal.append(transaction)
        self.hidden.append(transaction)

    def show(self) -> None:
        transaction = self.hidden.pop(self._source.randrange(len(self.hidden)))
        for key, row in transaction.rows.items():
            if row is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = row

    def step(self) -> None:
        kind = self._source.random()
        if kind < 0.2 and len(self.open) < 4:
            self.begin()
        elif kind < 0.6 and self.open:
            self.change()
        elif kind < 0.8 and self.open:
            self.commit()
        elif self.hidden:
            self.show()


class _Capture:
    """Changes and Reading of the product, with a topic that is a list."""

    def __init__(self, database: _Database, source: random.Random, topic: dict[int, str]) -> None:
        self._database, self._source = database, source
        self.rows = TopicRows()
        self.records: list[Record] = []
        for key, value in topic.items():
            self.rows.put("topic", f'{{"id":{key}}}', value)
            self.records.append(Record("topic", f'{{"id":{key}}}', value, None))
        self.rows._topics.add("topic")
        self.place = self.taken_lsn = 0
        connection: Any = None
        self.reading = Reading(
            connection, "p", [_TABLE], _TYPES, self.rows, {"topic"}, lambda: False
        )
        self.changes = Changes([_TABLE], _TYPES, self.rows, 0, OnTruncate.STOP, self.reading)
        self._take(_RELATION)

    def _take(self, message: Message) -> None:
        if isinstance(message, Begin):
            self.reading.began(message.xid)
        self.records += self.changes.take(message)

    def step(self) -> None:
        kind = self._source.random()
        if kind < 0.4 and self.place < len(self._database.wal):
            transaction = self._database.wal[self.place]
            self.place += 1
            lsn = 1000 + 10 * self.place
            self._take(Begin(lsn - 5, 0, transaction.xid))
            for each in transaction.messages:
                self._take(each)
            self._take(Commit(lsn - 5, lsn, 0))
            self.taken_lsn = lsn
        elif kind < 0.5 and self.place == len(self._database.wal):
            self.taken_lsn = self._database.lsn
        elif self.reading.is_on:
            if self.reading.high_lsn is None:
                self.reading.read()
            elif self.taken_lsn >= self.reading.high_lsn:
                self.records += self.reading.take()
            self.reading.finished()

    def check(self) -> None:
        state: dict[str, dict[str, Any]] = {}
        last: dict[str, int] = {}
        for _, key, value, *_ in self.records:
            if value is None:
                assert key in state, "a tombstone of a key that is not there"
                del state[key]
            else:
                state[key] = json.loads(value)
                assert state[key]["v"] >= last.get(key, 0), "an older row after a newer one"
                last[key] = state[key]["v"]
        assert state == {
            f'{{"id":{key}}}': {"id": key, "v": row.v, "big": row.big}
            for key, row in self._database.rows.items()
        }


@pytest.mark.parametrize("seed", seeds(150, 5000))
def test_equal_in_every_order(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    source = random.Random(seed)
    database = _Database(source)
    size = source.choice((1, 2, 5))

    def read_chunk(_: Any, __: str, table: FoundTable, after: Any, *more: Any) -> Chunk | None:
        if source.random() < 0.1:
            return None
        if source.random() < 0.02:
            raise chunks.TableAltered
        first = -1 if after is None else int(after[0])
        keys = sorted(each for each in database.rows if each > first)
        rows = [[str(key), *map(str, database.rows[key])] for key in keys[:size]]
        return Chunk(rows, len(keys) < size, database.seen, database.lsn)  # type: ignore[arg-type]

    monkeypatch.setattr(chunks, "read_chunk", read_chunk)
    monkeypatch.setattr(chunks, "seen_now", lambda _: database.seen)
    monkeypatch.setattr(catalog, "tables", lambda *_: [_FOUND])
    monkeypatch.setattr(reading, "_RETRY_S", -1.0)
    for _ in range(source.randrange(60)):
        database.step()
    database.is_published = True
    place = len(database.wal)
    topic = {}
    if source.random() < 0.5:  # it holds something already: right, wrong, or gone
        for key in source.sample(range(_KEYS), 5):
            row = database.rows.get(key, _Row(0, "wrong"))
            topic[key] = f'{{"id":{key},"v":{row.v},"big":"{row.big}"}}'
    captured = _Capture(database, source, topic)
    captured.place = place
    for _ in range(400):
        (database if source.random() < 0.5 else captured).step()
    while database.open or database.hidden:
        database.commit() if database.open else database.show()
    for _ in range(5000):
        if not captured.reading.is_on and captured.place == len(database.wal):
            break
        captured.step()
    assert not captured.reading.is_on
    captured.check()
    captured.rows.close()
