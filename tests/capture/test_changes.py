"""What changes become, decided without a database."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from drumlin.capture.changes import Changes, OnTruncate, RowsNeeded, Table
from drumlin.capture.errors import CaptureError, CaptureRefused
from drumlin.capture.log.kept_rows import TopicRows
from drumlin.capture.log.names import Names, topic_of
from drumlin.capture.log.position import Definition, Position, decode_definition, decode_position
from drumlin.capture.messages.pgoutput import (
    UNCHANGED,
    Begin,
    Column,
    Commit,
    Delete,
    Insert,
    Message,
    Relation,
    Truncate,
    Update,
)
from drumlin.capture.running.pace import Pace
from drumlin.capture.values.record import Op, Record
from drumlin.capture.values.types import Types

_TABLE = Table(1, "s", "t", "t", ("id",), ("integer",))
_COLUMNS = (Column("id", 23, -1, True), Column("big", 25, -1, False))
_RELATION = Relation(1, "s", "t", "d", _COLUMNS)


@pytest.fixture
def rows() -> Iterator[TopicRows]:
    found = TopicRows()
    yield found
    found.close()


def _changes(rows: TopicRows, on_truncate: OnTruncate = OnTruncate.STOP) -> Changes:
    return Changes([_TABLE], Types(), rows, 100, on_truncate)


def _take(changes: Changes, *messages: Message) -> list[Record]:
    return [record for each in messages for record in changes.take(each)]


def _transaction(lsn: int, *changes: Message) -> list[Message]:
    return [Begin(lsn, 5_000_000, 7), *changes, Commit(lsn, lsn + 10, 5_000_000)]


def _record(key: int, value: str | None, op: Op = Op.CREATE) -> Record:
    return Record("t", f'{{"id":{key}}}', value, 5_000, Op.DELETE if value is None else op)


def test_each_kind_of_change(rows: TopicRows) -> None:
    changes = _changes(rows)
    found = _take(
        changes,
        _RELATION,
        *_transaction(
            100,
            Insert(1, ["1", "a"]),
            Update(1, None, ["1", None]),
            Update(1, ["1", None], ["2", "b"]),
            Delete(1, ["2", None]),
        ),
    )
    assert found == [
        _record(1, '{"id":1,"big":"a"}'),
        _record(1, '{"id":1,"big":null}', Op.UPDATE),
        _record(1, None),
        _record(2, '{"id":2,"big":"b"}'),
        _record(2, None),
    ]
    assert changes.end_lsn == 110 and not changes.in_transaction


def test_what_the_topics_have_already_is_left_out(rows: TopicRows) -> None:
    changes = _changes(rows)
    assert _take(changes, _RELATION, *_transaction(99, Insert(1, ["1", "a"]))) == []
    assert changes.end_lsn == 109


def test_a_large_value_that_was_not_sent(rows: TopicRows) -> None:
    changes = _changes(rows)
    unsent = Update(1, None, ["1", UNCHANGED])
    with pytest.raises(RowsNeeded):
        _take(changes, _RELATION, *_transaction(100, Insert(1, ["1", "a"]), unsent))
    rows._topics.add("t")  # read, and empty
    changes = _changes(rows)
    moved = Update(1, ["1", None], ["2", UNCHANGED])
    found = _take(changes, _RELATION, *_transaction(100, Insert(1, ["1", "a"]), unsent, moved))
    assert found[1:] == [
        _record(1, '{"id":1,"big":"a"}', Op.UPDATE),
        _record(1, None),
        _record(2, '{"id":2,"big":"a"}'),
    ]
    with pytest.raises(CaptureError, match="REPLICA IDENTITY FULL"):
        _take(changes, *_transaction(200, unsent))


def test_truncation(rows: TopicRows) -> None:
    truncated = [_RELATION, *_transaction(100, Truncate((1,)))]
    with pytest.raises(CaptureError, match="--on-truncate"):
        _take(_changes(rows), *truncated)
    assert _take(_changes(rows, OnTruncate.IGNORE), *truncated) == []
    with pytest.raises(RowsNeeded):
        _take(_changes(rows, OnTruncate.TOMBSTONES), *truncated)
    rows._topics.add("t")
    inserts = [Insert(1, [str(each), "a"]) for each in range(2_500)]
    found = _take(
        _changes(rows, OnTruncate.TOMBSTONES),
        _RELATION,
        *_transaction(100, *inserts, Delete(1, ["7", None]), Truncate((1,))),
    )
    gone = {each.key for each in found[2_501:]}
    assert gone == {f'{{"id":{each}}}' for each in range(2_500) if each != 7}
    assert len(found) == 2_501 + len(gone)


@pytest.mark.parametrize(
    ("relation", "told"),
    [
        (_RELATION._replace(columns=(_COLUMNS[0], Column("big", 25, -1, True))), "has the key"),
        (
            _RELATION._replace(columns=(Column("id", 1700, 7, True), _COLUMNS[1])),
            "the type of 'id' has changed",
        ),
        (_RELATION._replace(identity="n", columns=_COLUMNS[1:]), "has no key"),
        (_RELATION._replace(identity="f", columns=_COLUMNS[1:]), "captured by the key"),
    ],
)
def test_tables_that_are_not_what_they_were(rows: TopicRows, relation: Relation, told: str) -> None:
    with pytest.raises(CaptureError, match=told):
        _take(_changes(rows), relation)


def test_tables_that_were_added(rows: TopicRows) -> None:
    changes = _changes(rows)
    other = _RELATION._replace(oid=2, name="other")
    assert _take(changes, other, *_transaction(100)) == []
    with pytest.raises(CaptureError, match=r"table s\.other was added to the publication"):
        _take(changes, *_transaction(200, Insert(2, ["1", None])))


def test_columns_that_come_and_go(rows: TopicRows) -> None:
    larger = Column("id", 20, -1, True)
    more = _RELATION._replace(columns=(larger, _COLUMNS[1], Column("more", 23, -1, False)))
    fewer = _RELATION._replace(columns=_COLUMNS[:1])
    found = _take(
        _changes(rows),
        _RELATION,
        *_transaction(100, Insert(1, ["1", "a"])),
        more,
        *_transaction(200, Insert(1, ["2", "a", "7"])),
        fewer,
        *_transaction(300, Insert(1, ["3"])),
    )
    assert [each.value for each in found[1:]] == ['{"id":2,"big":"a","more":7}', '{"id":3}']


def test_positions_and_definitions_come_back() -> None:
    for position in (
        Position("run", None),
        Position("run", 0x1_0000_0010),
        Position("run", 0x1_0000_0010, 3, 0x1_0000_0008),
    ):
        assert decode_position(position.encode().encode()) == position
    definition = Definition("7", "shop", [_TABLE])
    assert decode_definition(definition.encode().encode()) == definition


@pytest.mark.parametrize(
    "value", [b"", b"{}", b"[]", b"\xff", b'{"format":2}', b'{"format":1}', b'{"format":1,"run":1}']
)
def test_what_no_capture_has_written(value: bytes) -> None:
    with pytest.raises(CaptureError):
        decode_position(value)
    with pytest.raises(CaptureError):
        decode_definition(value)


def test_names() -> None:
    assert Names("shop").slot == "drumlin_shop"
    for name in ("", "Shop", "1shop", "a-b", "a" * 49, "ü"):
        with pytest.raises(CaptureRefused, match="small letters"):
            Names(name)
    assert topic_of("", "public", "Item") == "public.Item"
    assert topic_of("shop", "public", "item") == "shop.public.item"
    with pytest.raises(CaptureRefused, match="leave the table out"):
        topic_of("", "public", "my item")


def test_pace() -> None:
    pace = Pace(100, 0.0, heartbeat_s=10)
    assert not pace.is_due(0, has_more=False, now_s=99)
    pace.took(110, now_s=1.0)
    assert pace.is_due(1, has_more=False, now_s=1.0)
    assert not pace.is_due(1, has_more=True, now_s=1.1)
    assert pace.is_due(1, has_more=True, now_s=1.25)
    assert pace.is_due(16 << 20, has_more=True, now_s=1.0)
    assert pace.committed_lsn == 100
    pace.committed(1.25)
    assert pace.committed_lsn == 110
    pace.heard(120)
    assert not pace.is_due(0, has_more=False, now_s=11.0)
    assert pace.is_due(0, has_more=True, now_s=11.25)
    pace.heard(90)
    assert pace.taken_lsn == 120
