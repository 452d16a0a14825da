"""Arrow columns as Protobuf values: Google's library reads what was there before."""

from __future__ import annotations

import json
import pickle
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from client.values.test_protobuf import ALL, decoder, message_class, messages
from drumlin import ProtobufEncoder, RegistryError, SchemaError, ValueDecoder
from rig.servers.schema_registry import running_registry

OTHER = """
syntax = "proto3"; package p;
message First { int32 a = 1; } message Outer { message In { int64 b = 1; } }
"""
TREE = 'syntax = "proto2"; message Tree { required int32 x = 1; optional Tree left = 2; }'


@settings(max_examples=40, deadline=None)
@given(st.lists(messages() | st.none(), min_size=1, max_size=4))
def test_what_is_decoded_is_encoded_again(rows: list[Any]) -> None:
    for time in (each for row in rows if row is not None for each in times_of(row)):
        time.nanos -= time.nanos % 1000  # a column has microseconds
    column = pa.array(
        [row if row is None else row.SerializeToString() for row in rows], pa.binary()
    )
    values = decoder().decode(column).values
    encoded = ProtobufEncoder(values.type, ALL).encode(values).to_pylist()
    read = message_class("all.kinds.All").FromString
    assert [None if each is None else read(each) for each in encoded] == rows


def times_of(row: Any) -> list[Any]:
    return [*row.times, *([row.at] if row.HasField("at") else [])]


def test_with_a_registry() -> None:
    type_ = pa.struct([("b", pa.int64())])
    values = pa.array([{"b": 5}, None], type_)
    with running_registry() as rig:
        mine = ProtobufEncoder(type_, OTHER, message="p.Outer.In", registry=rig.url, subject="s")
        rig.closed = {"s"}
        latest = ProtobufEncoder(
            type_, message="p.Outer.In", registry=rig.url, subject="s", schema_id="latest"
        )
        encoded = pickle.loads(pickle.dumps(mine)).encode(values)
        assert encoded.to_pylist() == [b"\0\0\0\0\1\4\2\0\x08\5", None]
        assert latest.encode(values) == encoded
        first = ProtobufEncoder(pa.struct([("a", pa.int32())]), registry=rig.url, schema_id=1)
        assert first.encode(pa.array([{"a": None}])).to_pylist() == [b"\0\0\0\0\1\0"]
        found = ValueDecoder(format="protobuf", registry=rig.url, subject="s", message="p.Outer.In")
        assert found.decode(encoded).values.to_pylist() == [{"b": 5}, None]
        with pytest.raises(RegistryError, match="incompatible"):
            ProtobufEncoder(
                pa.struct([]), TREE.replace("required", "optional"), registry=rig.url, subject="s"
            )


def test_times_and_a_message_in_itself() -> None:
    at = datetime(1969, 12, 31, 23, 59, 58, 500_001, UTC)
    type_ = pa.struct([("at", pa.timestamp("us", tz="UTC"))])
    encoded = ProtobufEncoder(type_, ALL).encode(pa.array([{"at": at}], type_))
    found = message_class("all.kinds.All").FromString(encoded[0].as_py())
    assert (found.at.seconds, found.at.nanos) == (-2, 500_001_000)
    tree = pa.struct([("x", pa.int32()), ("left", pa.binary())])
    encoder = ProtobufEncoder(tree, TREE)
    (leaf,) = encoder.encode(pa.array([{"x": 1, "left": None}], tree)).to_pylist()
    assert encoder.encode(pa.array([{"x": 2, "left": leaf}], tree)).to_pylist() == [
        b"\x08\2\x12\2" + leaf
    ]


@pytest.mark.parametrize(
    ("row", "type_", "reason"),
    [
        ({"left": {"x": 1}, "right": "r"}, None, "left and right exclude each other"),
        ({"kind_": "FEW"}, None, "FEW"),
        ({"uint32_": -1}, pa.struct([("uint32_", pa.int64())]), "does not fit the schema"),
        ({"uint32_": 2**32}, pa.struct([("uint32_", pa.int64())]), "does not fit the schema"),
        (
            {"rint32_": [1, None]},
            pa.struct([("rint32_", pa.list_(pa.int32()))]),
            "no null in lists",
        ),
    ],
)
def test_values_that_do_not_fit(row: dict[str, Any], type_: pa.DataType, reason: str) -> None:
    column = pa.array([row], type_ or decoder().type)
    with pytest.raises(ValueError, match=reason):
        ProtobufEncoder(column.type, ALL).encode(column)


@pytest.mark.parametrize(
    ("name", "type_", "reason"),
    [
        ("nothing", pa.int32(), "value: all.kinds.All has no field 'nothing'"),
        ("int32_", pa.int64(), "value.int32_: a column of int64 cannot be written as int32"),
        ("float_", pa.float64(), "cannot be written as float"),
        ("string_", pa.binary(), "cannot be written as string"),
        ("bytes_", pa.string(), "cannot be written as bytes"),
        ("rint32_", pa.int32(), "cannot be written as a list"),
        ("by_name", pa.struct([]), "cannot be written as a map"),
        ("inner", pa.string(), "cannot be written as all.kinds.All.Inner"),
        ("inner", pa.struct([("y", pa.int32())]), "value.inner: .*no field 'y'"),
        ("at", pa.timestamp("us"), "a time without a zone"),
        ("at", pa.date32(), "cannot be written as google.protobuf.Timestamp"),
    ],
)
def test_columns_that_are_refused(name: str, type_: pa.DataType, reason: str) -> None:
    with pytest.raises(SchemaError, match=reason):
        ProtobufEncoder(pa.struct([(name, type_)]), ALL)


def test_what_is_refused() -> None:
    nothing = pa.struct([])
    with pytest.raises(SchemaError, match="the column lacks the required field 'x'"):
        ProtobufEncoder(nothing, TREE)
    with pytest.raises(SchemaError, match="no message 'Bush': there are Tree"):
        ProtobufEncoder(nothing, TREE, message="Bush")
    with pytest.raises(SchemaError, match="the schema has no message"):
        ProtobufEncoder(nothing, 'syntax = "proto3";')
    with pytest.raises(ValueError, match="with a schema, or with a `schema_id`"):
        ProtobufEncoder(nothing)
    with running_registry() as rig:
        rig.add("s", json.dumps("long"))
        with pytest.raises(SchemaError, match="schema 1 is AVRO, not PROTOBUF"):
            ProtobufEncoder(nothing, registry=rig.url, schema_id=1)
