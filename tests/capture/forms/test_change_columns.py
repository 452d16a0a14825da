"""Changes that are converted as columns are what they are one by one, in each form."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capture.capture_twin import wire
from drumlin.capture.change_columns import ChangeColumns
from drumlin.capture.changes import Changes, Table
from drumlin.capture.errors import CaptureError
from drumlin.capture.forms.avro_rows import AvroRows
from drumlin.capture.forms.debezium import POSTGRES, DebeziumJson, Origin
from drumlin.capture.forms.debezium_avro import DebeziumAvro
from drumlin.capture.forms.headers import WithHeaders
from drumlin.capture.forms.schemas import Schemas
from drumlin.capture.messages.pgoutput import UNCHANGED, Column, Relation, Value, decode
from drumlin.capture.values.form import Form, PlainJson
from drumlin.capture.values.record import Data
from drumlin.capture.values.types import Types
from drumlin.client.values.registry import SchemaRegistry
from rig.depth import so_many
from rig.servers.schema_registry import RegistryRig, running_registry

_ORIGIN = Origin(POSTGRES, "1", "shop")
_NAMES = (
    "json",
    "avro",
    "debezium",
    "debezium-schemas",
    "debezium-avro",
    "headers",
    "no tombstones",
)
_OIDS = (7, 8)
_NUMERIC_12_2 = (12 << 16 | 2) + 4
_COLUMNS = (
    Column("id", 20, -1, True),
    Column('a "name"', 25, -1, True),
    Column("text", 25, -1, False),
    Column("price", 1700, _NUMERIC_12_2, False),
    Column("at", 1184, -1, False),
    Column("day", 1082, -1, False),
    Column("n", 23, -1, False),
    Column("ok", 16, -1, False),
    Column("part", 701, -1, False),
    Column("data", 17, -1, False),
)
_SOME = st.sampled_from(["", "x", "zwölf 北", 'a "b"', "\\", "a\nb", "\x7f", "\u2028"])
_ROW = st.tuples(
    st.integers(-(2**63), 2**63 - 1).map(str),
    _SOME,
    st.none() | _SOME | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
    st.none() | st.integers(-(10**9), 10**9).map(lambda each: f"{each}.25"),
    st.none() | st.datetimes().map(lambda each: f"{each.isoformat(' ')}+00"),
    st.none() | st.dates().map(str),
    st.none() | st.integers(-(2**31), 2**31 - 1).map(str),
    st.none() | st.sampled_from("tf"),
    st.none() | st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.none() | st.binary().map(lambda each: f"\\x{each.hex()}"),
)
_CHANGES = st.lists(st.tuples(st.sampled_from(_OIDS), st.sampled_from("IUDOKF"), _ROW), max_size=5)


_GOOD: tuple[Value, ...] = (
    "1",
    "x",
    "t",
    "0.25",
    "2024-02-29 12:00:00+00",
    None,
    "7",
    "t",
    "1",
    None,
)


class _Rows:
    """What is kept of topics: nothing, or all of one."""

    def __init__(self, kept: str = "") -> None:
        self._kept = kept

    def keeps(self, topic: str) -> bool:
        return topic == self._kept

    def get(self, topic: str, key: Data) -> Data | None:
        raise AssertionError((topic, key))

    def put(self, topic: str, key: Data, value: Data | None) -> None:
        """It is not looked at."""

    def keys(self, topic: str) -> Iterator[Data]:
        raise AssertionError(topic)


@pytest.fixture(scope="module")
def registry() -> Iterator[RegistryRig]:
    with running_registry() as rig:
        yield rig


def _form(name: str, registry: RegistryRig) -> Form:
    schemas = Schemas(SchemaRegistry(registry.url, patience_ms=0))
    forms: dict[str, Form] = {
        "json": PlainJson(),
        "avro": AvroRows(schemas),
        "debezium": DebeziumJson(_ORIGIN, False),
        "debezium-schemas": DebeziumJson(_ORIGIN, True),
        "debezium-avro": DebeziumAvro(_ORIGIN, schemas),
        "headers": WithHeaders(PlainJson()),
        "no tombstones": WithHeaders(DebeziumJson(_ORIGIN, False, has_tombstones=False)),
    }
    return forms[name]


def _begun(form: Form, start_lsn: int = 0, kept: str = "", prefix: str = "p") -> Changes:
    """Changes of two tables that the stream has told of."""
    tables = [
        Table(oid, "s", f"t{oid}", f"{prefix}.s.t{oid}", ("id", 'a "name"'), ("integer", "text"))
        for oid in _OIDS
    ]
    changes = Changes(tables, Types(), _Rows(kept), start_lsn, form=form, database="shop")
    for oid in _OIDS:
        assert not list(changes.take(Relation(oid, "s", f"t{oid}", "d", _COLUMNS)))
    return changes


def _change(oid: int, kind: str, row: Sequence[Value]) -> bytes:
    match kind:
        case "I":
            return wire.insert(oid, row)
        case "U":
            return wire.update(oid, None, row)
        case "D":
            return wire.delete(oid, [*row[:2], *[None] * 8])
        case "O":  # with REPLICA IDENTITY FULL, as "F"
            return wire.delete(oid, row).replace(b"K", b"O", 1)
        case "K":
            return wire.update(oid, ["0", *row[1:2], *[None] * 8], row)
    old = [*row[:2], *_GOOD[2:]]
    return wire.update(oid, old, [*row[:2], UNCHANGED, *row[3:]]).replace(b"K", b"O", 1)


def _transaction(lsn: int, changes: Sequence[tuple[int, str, Sequence[Value]]]) -> list[bytes]:
    rows = [_change(*each) for each in changes]
    return [wire.begin(lsn, lsn + 1), *rows, wire.commit(lsn, lsn + 8)]


def _bytes(data: Data | None) -> Any:
    return data.encode() if isinstance(data, str) else data


def _singly(changes: Changes, form: Form, payloads: Sequence[bytes]) -> list[tuple[Any, ...]]:
    found = []
    for payload in payloads:
        for record in changes.take(decode(payload)):
            for each in form.written(record, changes.place):
                key, value = _bytes(each.key), _bytes(each.value)
                found.append((each.topic, key, value, each.time_ms, each.headers))
    return found


def _together(
    changes: Changes, form: Form, payloads: Sequence[bytes]
) -> list[tuple[Any, ...]] | None:
    taken = ChangeColumns(changes, form).take(payloads)
    if taken is None:
        return None
    found = []
    for topic, *columns, headers in taken.columns:
        rows = zip(*(each.to_pylist() for each in columns), strict=True)
        found += [(topic, *row, each) for row, each in zip(rows, headers, strict=True)]
    assert any(each.has_records for each in taken.parts) == bool(found)
    return found


@pytest.mark.parametrize("name", _NAMES)
@settings(max_examples=so_many(12, 1000), deadline=None)
@given(whole=st.lists(_CHANGES, max_size=4), first=_CHANGES, last=_CHANGES, past=st.integers(0, 2))
def test_together_as_singly(
    name: str, registry: RegistryRig, whole: Any, first: Any, last: Any, past: int
) -> None:
    """Also from within a transaction, into another one, and where some were written before."""
    begin, *rest = _transaction(100, first)
    payloads = list(rest)
    for number, each in enumerate(whole, 2):
        payloads += _transaction(100 * number, each)
    payloads += _transaction(9000, last)[:-1]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "time_ns", lambda: 1_700_000_000_123_456_789)
        found = []
        for take in (_singly, _together):
            form = _form(name, registry)
            changes = _begun(form, start_lsn=100 * past, prefix=name.replace(" ", "-"))
            assert not list(changes.take(decode(begin)))
            found.append((take(changes, form, payloads), changes.place, changes.end_lsn))
            assert changes.in_transaction
    singly, together = found
    assert together[0] is not None
    assert sorted(together[0], key=lambda each: str(each[0])) == sorted(
        singly[0] or [], key=lambda each: str(each[0])
    )
    assert together[1:] == singly[1:]


def _with(place: int, value: Value) -> bytes:
    return wire.insert(7, [*_GOOD[:place], value, *_GOOD[place + 1 :]])


@pytest.mark.parametrize(
    "odd",
    [
        wire.update(7, ["2", None, *[None] * 8], _GOOD),
        wire.update(7, ["2", "x", *[None] * 8], [*_GOOD[:3], "0.255", *_GOOD[4:]]),
        wire.delete(7, ["1", None, *[None] * 8]),
        wire.delete(7, ["1", "x", UNCHANGED, *[None] * 7]),
        wire.truncate(7),
        wire.relation(Relation(7, "s", "t7", "d", _COLUMNS)),
        wire.insert(9, _GOOD),  # of no captured table
        wire.insert(7, _GOOD[:-1]),
        wire.insert(7, [*_GOOD, None]),
        _with(2, UNCHANGED),
        _with(0, None),
        _with(0, "x"),
        _with(6, "0x7"),
        _with(3, "0.255"),
        _with(5, "yesterday"),
        _with(7, "true"),
        _with(2, "x" * (16 << 10)),
        _with(2, "x")[:-3],
        _with(2, "x") + b"n",
        _with(2, "tt").replace(b"tt", b"\xff\xff"),
        _with(2, "x").replace(b"\0\0\0\1x", b"\xff\xff\xff\xffx"),
        _with(2, "x").replace(b"t\0\0\0\1x", b"b\0\0\0\1x"),
        b"",
        b"I",
    ],
)  # fmt: skip
def test_what_is_not_alike_is_left(odd: bytes) -> None:
    form = DebeziumJson(_ORIGIN, False)
    changes = _begun(form)
    for each in _transaction(50, [(7, "I", _GOOD)]):
        list(changes.take(decode(each)))
    mark = changes.mark()
    begin, *rest = _transaction(100, [(7, "I", _GOOD), (8, "U", _GOOD)])
    assert _together(changes, form, [begin, odd, *rest]) is None
    assert changes.mark() == mark
    good = _together(changes, form, [begin, *rest])
    assert good is not None and len(good) == 2


def test_rows_outside_of_a_transaction() -> None:
    form = PlainJson()
    payloads = [wire.insert(7, _GOOD)] * 3
    assert _together(_begun(form), form, payloads) is None
    with pytest.raises(CaptureError, match="outside"):
        _singly(_begun(form), form, payloads)


def test_topics_whose_rows_are_kept() -> None:
    """A later change may need any of them."""
    form = PlainJson()
    changes = _begun(form, kept="p.s.t7")
    assert _together(changes, form, _transaction(100, [(7, "I", _GOOD)])) is None
    assert _together(changes, form, _transaction(100, [(8, "I", _GOOD)])) is not None
