"""Arrow columns as Avro values: decoded again they are the same."""

from __future__ import annotations

import json
import pickle
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from drumlin import AvroEncoder, RegistryError, SchemaError, SchemaRegistry, ValueDecoder
from drumlin.client.values.avro.avro_encoder import schema_of
from rig.servers.schema_registry import running_registry

TYPE = pa.struct(
    [
        ("i", pa.int32()),
        ("l", pa.int64()),
        ("f", pa.float32()),
        ("d", pa.float64()),
        ("b", pa.bool_()),
        ("t", pa.string()),
        ("o", pa.binary()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("local", pa.timestamp("us")),
        ("sum", pa.decimal128(9, 2)),
        (
            "list",
            pa.list_(pa.field("element", pa.struct([("x", pa.int64()), ("day", pa.date32())]))),
        ),
        ("map", pa.map_(pa.string(), pa.list_(pa.field("element", pa.string())))),
    ]
)
FULL = {
    "i": -5,
    "l": 2**62,
    "f": 0.5,
    "d": 1e300,
    "b": True,
    "t": "ü",
    "o": b"\0\xff",
    "day": date(2024, 2, 29),
    "at": datetime(2024, 1, 2, 3, 4, 5, 678901, UTC),
    "local": datetime(1901, 1, 2, 3, 4, 5, 6),
    "sum": Decimal("-12.34"),
    "list": [{"x": 1, "day": date(1900, 1, 1)}, None, {"x": None, "day": None}],
    "map": [("k", ["a", None]), ("l", None)],
}


def test_round_trip() -> None:
    empty = dict.fromkeys(FULL)
    values = pa.array([FULL, None, empty], TYPE)
    encoded = AvroEncoder(TYPE).encode(values)
    decoder = ValueDecoder(json.dumps(schema_of(TYPE)), format="avro")
    assert decoder.type == TYPE
    assert decoder.decode(encoded).values.to_pylist() == [FULL, None, empty]


def test_the_schema_is_registered() -> None:
    type_ = pa.struct([("a", pa.int64())])
    with running_registry() as rig:
        encoder = AvroEncoder(type_, registry=rig.url, subject="s")
        encoded = encoder.encode(pa.array([{"a": 1}], type_))
        found = ValueDecoder(format="avro", registry=rig.url, subject="s").decode(encoded)
        assert found.values.to_pylist() == [{"a": 1}]
        rig.failures = [(409, b'{"message": "incompatible"}')]
        with pytest.raises(RegistryError, match="409 incompatible"):
            AvroEncoder(type_, registry=SchemaRegistry(rig.url), subject="s")


def test_values_that_do_not_fit() -> None:
    type_ = pa.struct([("a", pa.int64())])
    strict = '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}]}'
    encoder = AvroEncoder(type_, strict)
    with pytest.raises(ValueError, match="does not fit"):
        encoder.encode(pa.array([{"a": None}], type_))


def test_what_is_refused() -> None:
    with pytest.raises(SchemaError, match=r"Value_a.*map"):
        AvroEncoder(pa.struct([("a", pa.map_(pa.int32(), pa.int32()))]))
    with pytest.raises(SchemaError, match="not a valid Avro field name"):
        AvroEncoder(pa.struct([("not a name", pa.int32())]))
    with pytest.raises(SchemaError, match="not an Avro schema"):
        AvroEncoder(pa.struct([("a", pa.int32())]), "no such type")
    with pytest.raises(ValueError, match="subject"):
        AvroEncoder(pa.struct([("a", pa.int32())]), subject="s")


ORDER = {
    "type": "record",
    "name": "shop.Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "times", "type": {"type": "array", "items": ["null", "shop.Time"]}},
        {"name": "note", "type": "string", "default": "none"},
    ],
}
TIME = {
    "type": "record",
    "name": "shop.Time",
    "fields": [{"name": "ns", "type": {"type": "long", "logicalType": "timestamp-nanos"}}],
}
UTC_TIME = pa.timestamp("us", tz="UTC")
ORDER_TYPE = pa.struct(
    [
        ("id", pa.int64()),
        ("at", UTC_TIME),
        ("times", pa.list_(pa.field("element", pa.struct([("ns", UTC_TIME)])))),
    ]
)


def test_a_schema_of_the_registry_is_written_with_and_none_registered() -> None:
    with running_registry() as rig:
        rig.add("time", TIME)
        reference = {"name": "shop.Time", "subject": "time", "version": 1}
        schema_id = rig.add("orders-value", ORDER, references=[reference])
        rig.closed = {"orders-value"}
        at = datetime(1969, 12, 31, 23, 59, 59, 998_500, UTC)
        row = {"id": 1, "at": at, "times": [{"ns": at}, None]}
        by_id = AvroEncoder(ORDER_TYPE, registry=rig.url, schema_id=schema_id)
        latest = AvroEncoder(
            ORDER_TYPE, registry=rig.url, subject="orders-value", schema_id="latest"
        )
        values = pa.array([row, None], ORDER_TYPE)
        encoded = pickle.loads(pickle.dumps(by_id)).encode(values)
        assert encoded == latest.encode(values)
        found = ValueDecoder(format="avro", registry=rig.url, subject="orders-value")
        cut = at.replace(microsecond=998_000)  # to the schema's unit, downwards
        expected = {"id": 1, "at": cut, "times": [{"ns": -1_500_000}, None], "note": "none"}
        assert found.decode(encoded).values.to_pylist() == [expected, None]
        assert not [each for each in rig.requests if each.endswith("/versions")]


@pytest.mark.parametrize(
    ("column", "wanted", "reason"),
    [
        (pa.struct([("a", pa.int64()), ("b", pa.int64())]), None, "the schema has no field 'b'"),
        (pa.struct([]), None, "the column has no field 'a'"),
        (
            pa.struct([("a", pa.int64())]),
            "int",
            "value.a: a column of int64 cannot be written as int",
        ),
        (pa.struct([("a", pa.float64())]), "float", "cannot be written as float"),
        (pa.struct([("a", UTC_TIME)]), "long", "cannot be written as long"),
        (
            pa.struct([("a", pa.timestamp("us"))]),
            {"type": "long", "logicalType": "timestamp-micros"},
            r"timestamp\[us\] cannot be written as long \(timestamp-micros\)",
        ),
        (
            pa.struct([("a", pa.decimal128(9, 4))]),
            {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
            "cannot be written as bytes",
        ),
        (
            pa.struct([("a", pa.struct([("x", pa.int64())]))]),
            [
                {"type": "record", "name": name, "fields": [{"name": "x", "type": "long"}]}
                for name in "BC"
            ],
            "fits several branches",
        ),
        (pa.struct([("a", pa.string())]), ["null", "long"], "cannot be written as long"),
    ],
)
def test_a_column_that_would_not_be_written_as_a_whole_is_refused(
    column: pa.DataType, wanted: object, reason: str
) -> None:
    schema = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "a", "type": "long" if wanted is None else wanted}],
    }
    with pytest.raises(SchemaError, match=reason):
        AvroEncoder(column, json.dumps(schema))


def test_which_schema_is_meant_is_said_once() -> None:
    type_ = pa.struct([("a", pa.int64())])
    url = "http://127.0.0.1:9"
    for arguments in (
        {"schema_id": 1},
        {"schema_id": "latest", "registry": url},
        {"schema_id": 1, "registry": url, "subject": "s"},
        {"schema_id": 1, "registry": url, "schema": '"long"'},
        {"schema_id": "newest", "registry": url, "subject": "s"},
        {"schema_id": True, "registry": url},
    ):
        with pytest.raises(ValueError, match="schema_id"):
            AvroEncoder(type_, **arguments)  # type: ignore[arg-type]
    with running_registry() as rig:
        proto = rig.add("p", 'syntax = "proto3"; message M {}', "PROTOBUF")
        with pytest.raises(SchemaError, match=f"schema {proto} is PROTOBUF, not AVRO"):
            AvroEncoder(type_, registry=rig.url, schema_id=proto)
        with pytest.raises(RegistryError, match="Subject 'none' not found"):
            AvroEncoder(type_, registry=rig.url, subject="none", schema_id="latest")
