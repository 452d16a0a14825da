"""Arrow columns as Avro values: decoded again they are the same."""

from __future__ import annotations

import json
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
