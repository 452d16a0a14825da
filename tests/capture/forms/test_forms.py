"""Each form beside the others: rows of any text are written, read again, and taken apart."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capture.forms.avro_values import decoded
from drumlin.capture.errors import CaptureError, CaptureRefused
from drumlin.capture.forms.avro_rows import AvroRows
from drumlin.capture.forms.choice import Format, form_of
from drumlin.capture.forms.debezium import POSTGRES, DebeziumJson, Origin
from drumlin.capture.forms.debezium_avro import DebeziumAvro
from drumlin.capture.forms.schemas import Schemas
from drumlin.capture.messages.pgoutput import UNCHANGED
from drumlin.capture.values.form import Form, PlainJson
from drumlin.capture.values.kinds import TEXT, Column, Kind, Sort
from drumlin.capture.values.record import Data, Op, Record
from drumlin.capture.values.rows import BadValue, StillUnknown, TypesChanged
from drumlin.capture.values.types import TypeInfo, Types
from drumlin.client.values.registry import SchemaRegistry
from rig.depth import so_many
from rig.servers.schema_registry import RegistryRig, running_registry

_ORIGIN = Origin(POSTGRES, "1", "shop")
_PLACE = {"db": "shop", "ts_us": 1_700_000_000_000_000, "txId": 7, "lsn": 8}
_NAMES = ("json", "avro", "debezium", "debezium-schemas", "debezium-avro")
_COLUMNS = [
    Column("id", Kind(Sort.INT32)),
    Column("text", TEXT),
    Column("n", Kind(Sort.DECIMAL, 10, 2)),
    Column("any", Kind(Sort.DECIMAL)),
    Column("more", Kind(Sort.DECIMAL)),
    Column("f", Kind(Sort.FLOAT64)),
    Column("ok", Kind(Sort.BOOLEAN)),
    Column("data", Kind(Sort.BYTES)),
    Column("list", Kind(Sort.ARRAY, element=TEXT)),
]
_VALUES = st.tuples(
    st.integers(-(2**31), 2**31 - 1).map(str),
    st.none() | st.text(),
    st.none() | st.integers(-(10**9), 10**9).map(lambda each: f"{each}.25"),
    st.none() | st.decimals(allow_nan=False, allow_infinity=False).map(lambda each: f"{each:f}"),
    st.none() | st.decimals(allow_nan=False, allow_infinity=False).map(lambda each: f"{each:f}"),
    st.none() | st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.none() | st.sampled_from("tf"),
    st.none() | st.binary().map(lambda each: f"\\x{each.hex()}"),
    st.none() | st.lists(st.none() | st.text()).map(lambda each: _array(each)),
)


def _array(items: list[str | None]) -> str:
    def quoted(item: str) -> str:
        return '"' + item.replace("\\", "\\\\").replace('"', '\\"') + '"'

    return "{" + ",".join("NULL" if each is None else quoted(each) for each in items) + "}"


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
    }
    assert all(each == form.name for each, form in forms.items())
    return forms[name]


def _bytes(data: Data | None) -> Any:
    return data.encode() if isinstance(data, str) else data


@pytest.mark.parametrize("name", _NAMES)
@settings(max_examples=so_many(20, 500))
@given(row=_VALUES, was=_VALUES, large=st.sets(st.integers(1, 8)))
def test_rows_come_back(
    name: str, registry: RegistryRig, row: tuple[Any, ...], was: tuple[Any, ...], large: set[int]
) -> None:
    form = _form(name, registry)
    rows = form.rows_of("s.t", f"{name}.s.t", _COLUMNS, ["id"])
    key, value = rows.key(row), rows.value(row)
    assert key is not None
    record = Record(f"{name}.s.t", key, value, 5, Op.UPDATE, rows.before(was))
    (made,) = form.written(record, _PLACE)
    # Another process reads what this one has written.
    other = _form(name, registry)
    other.rows_of("s.t", f"{name}.s.t", _COLUMNS, ["id"])
    assert other.read(_bytes(made.key), _bytes(made.value)) == (key, value)
    later = [UNCHANGED if place in large else each for place, each in enumerate(row)]
    assert rows.value(later, rows.earlier(value)) == value
    if large:
        with pytest.raises(StillUnknown):
            rows.value(later)


@pytest.mark.parametrize("name", _NAMES)
def test_a_delete(name: str, registry: RegistryRig) -> None:
    form = _form(name, registry)
    rows = form.rows_of("s.t", f"{name}.s.t", _COLUMNS, ["id"])
    key, before = rows.key(["7"]), rows.before(["7", *[None] * 8])
    assert key is not None
    for old in (before, None):
        made = list(form.written(Record(f"{name}.s.t", key, None, 5, Op.DELETE, old), _PLACE))
        assert made[-1].value is None and len(made) == (1 if form.is_bare else 2)
        for each in made:
            assert form.read(_bytes(each.key), _bytes(each.value)) == (key, None)


@pytest.mark.parametrize("name", _NAMES)
@pytest.mark.parametrize(
    "value", [b"", b"x", b"\xff", b"[]", b"{}x", b"\0\0\0\0", b"\0\0\0\xff\xff1"]
)
def test_what_others_have_written(name: str, registry: RegistryRig, value: bytes) -> None:
    form = _form(name, registry)
    rows = form.rows_of("s.t", f"{name}.s.t", _COLUMNS, ["id"])
    key = _bytes(rows.key(["7"]))
    with pytest.raises(ValueError, match=r"."):
        _, row = form.read(key, value)
        assert row is not None
        rows.earlier(row)


@pytest.mark.parametrize("name", ["avro", "debezium-avro", "debezium", "debezium-schemas"])
def test_columns_whose_type_has_changed(name: str, registry: RegistryRig) -> None:
    """They are not taken over: their bytes would mean something else."""
    form = _form(name, registry)
    columns = [
        Column("id", Kind(Sort.INT32)),
        Column("a", TEXT),
        Column("n", Kind(Sort.DECIMAL, 9)),
    ]
    topic = f"{name}.s.changed"
    row = form.rows_of("s.changed", topic, columns, ["id"]).value(["1", "x", "7"])
    columns = [Column("id", Kind(Sort.INT64)), Column("a", TEXT), Column("n", Kind(Sort.DECIMAL))]
    rows = form.rows_of("s.changed", topic, columns, ["id"])
    assert "a" in rows.earlier(row) and "n" not in rows.earlier(row)
    with pytest.raises(StillUnknown):
        rows.value(["1", UNCHANGED, UNCHANGED], rows.earlier(row))


def test_an_old_row_is_written_with_its_own_schema(registry: RegistryRig) -> None:
    """A chunk waits while the table is altered."""
    form = _form("debezium-schemas", registry)
    rows = form.rows_of("s.old", "s.old", _COLUMNS[:2], ["id"])
    key, value = rows.key(["1"]), rows.value(["1", "x"])
    assert key is not None
    form.rows_of("s.old", "s.old", _COLUMNS[:1], ["id"])
    (made,) = form.written(Record("s.old", key, value, 5), _PLACE)
    told = json.loads(str(made.value))
    fields = [each["field"] for each in told["schema"]["fields"][1]["fields"]]
    assert fields == ["id", "text"] and told["payload"]["after"] == {"id": 1, "text": "x"}


def test_enums_that_have_got_a_symbol(registry: RegistryRig) -> None:
    columns = [Column("id", Kind(Sort.INT32)), Column("m", Kind(Sort.ENUM, symbols=("a", "b")))]
    for name in ("avro", "debezium-avro", "debezium"):
        rows = _form(name, registry).rows_of("s.e", f"{name}.e", columns, ["id"])
        with pytest.raises(TypesChanged, match=r"table s\.e, column 'm': 'c' is not one of a, b"):
            rows.value(["1", "c"])


def test_values_that_fit_no_schema_are_told(registry: RegistryRig) -> None:
    matrix = [Column("id", TEXT), Column("m", Kind(Sort.ARRAY, element=Kind(Sort.INT32)))]
    for name in ("avro", "debezium-avro", "debezium"):
        rows = _form(name, registry).rows_of("s.m", f"{name}.m", matrix, ["id"])
        with pytest.raises(BadValue, match=r"table s\.m, column 'm': an array of more than one"):
            rows.value(["1", "{{1,2},{3,4}}"])


def test_names_that_avro_does_not_allow(registry: RegistryRig) -> None:
    columns = [Column("1 id", TEXT), Column("x-y", TEXT), Column("ü", TEXT)]
    for name in ("avro", "debezium-avro"):
        rows = _form(name, registry).rows_of("s.My-t", f"1-{name}.s.My-t", columns, ["1 id"])
        assert decoded(registry, _bytes(rows.key(["k"]))) == {"_1_id": "k"}
        value = rows.value(["k", "v", None])
        assert rows.earlier(value).keys() == {"1 id", "x-y", "ü"}
        with pytest.raises(
            CaptureError, match="'x-y' and 'x_y' would both be the Avro field 'x_y'"
        ):
            _form(name, registry).rows_of(
                "s.t", "s.other", [*columns, Column("x_y", TEXT)], ["1 id"]
            )


@pytest.mark.parametrize("name", ["avro", "debezium-avro"])
def test_keys_whose_schema_would_change(name: str, registry: RegistryRig) -> None:
    """As after a change of whoever writes the topic: no key would be equal to an earlier one."""
    topic = f"{name}.s.keys"
    _form(name, registry).rows_of("s.k", topic, [Column("id", TEXT)], ["id"])
    _form(name, registry).rows_of("s.k", topic, [Column("id", TEXT)], ["id"])
    with pytest.raises(CaptureError, match="not equal to those in the topic"):
        _form(name, registry).rows_of("s.k", topic, [Column("id", Kind(Sort.UUID))], ["id"])
    with pytest.raises(CaptureError, match="not equal to those in the topic"):
        _form(name, registry).rows_of("s.k", topic, [Column("id", Kind(Sort.UUID))], ["id"])


def test_choices_that_contradict_each_other(registry: RegistryRig) -> None:
    for format_, url, tombstones, told in (
        (Format.AVRO, None, True, "needs a schema registry"),
        (Format.JSON, registry.url, True, "takes no schema registry"),
        (Format.JSON, None, False, "has only tombstones"),
    ):
        with pytest.raises(CaptureRefused, match=told):
            form_of(format_, url, POSTGRES, "shop", tombstones)


def test_kinds_of_types_with_a_modifier() -> None:
    types = Types(
        [
            TypeInfo(5000, "cents", 1700, 0, modifier=(12 << 16 | 2) + 4),
            TypeInfo(5001, "_cents", 0, 5000),
            TypeInfo(1231, "_numeric", 0, 1700),
            TypeInfo(5002, "mood", 0, 0, symbols=("sad", "ok")),
        ]
    )
    cents = Kind(Sort.DECIMAL, 12, 2)
    assert types.kind(1700, (12 << 16 | 2) + 4) == cents
    assert types.kind(1700) == Kind(Sort.DECIMAL)
    assert types.kind(1700, (5 << 16 | (-2 & 0x7FF)) + 4) == Kind(Sort.DECIMAL, 7, 0)
    assert types.kind(1700, (2 << 16 | 5) + 4) == Kind(Sort.DECIMAL, 5, 5)
    assert types.kind(5000) == cents
    assert types.kind(5001).element == cents
    assert types.kind(1231, (12 << 16 | 2) + 4).element == cents._replace(name="")
    assert types.kind(1114, 3).precision == 3 and types.kind(1114).precision is None
    assert types.kind(5002).symbols == ("sad", "ok")
