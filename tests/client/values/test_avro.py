"""Avro values: what fastavro wrote is what the columns hold, whatever the schemas."""

from __future__ import annotations

import io
import json
import pickle
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from client.values.avro_schemas import ANY, SCALARS, SchemaAndPairs, records, written
from drumlin import SchemaError, ValueDecoder
from drumlin.client.values.avro.avro_decoder import AvroDecoder
from drumlin.client.values.framing import header, payloads
from drumlin.client.values.registry import RegisteredSchema
from rig.servers.schema_registry import running_registry


def decoded(reader: Any, values: list[bytes | None], writer: Any = None) -> list[Any]:
    """Python values, as columns give them; a reason in the place of a value that has one."""
    decoder = AvroDecoder(RegisteredSchema(1, "AVRO", json.dumps(reader)))
    other = None if writer is None else RegisteredSchema(2, "AVRO", json.dumps(writer))
    column = pa.array(values, pa.binary())
    decoder.check(other)
    rows = decoder.decode(payloads(column), other)
    rows.values.validate(full=True)
    assert rows.values.type == decoder.type
    found: list[Any] = [None] * len(values)
    for row, value in zip(rows.rows.tolist(), rows.values.to_pylist(), strict=True):
        found[row] = rows.reasons.get(row, value)
    return found


@given(ANY, st.data())
@settings(max_examples=150)
def test_round_trip(schema: SchemaAndPairs, data: st.DataObject) -> None:
    form, pairs = schema
    rows = data.draw(st.lists(st.one_of(st.none(), pairs), max_size=6))
    values = [None if row is None else written(form, row[0]) for row in rows]
    assert decoded(form, values) == [None if row is None else row[1] for row in rows]


@given(records(st.sampled_from(SCALARS)), st.data())
@settings(max_examples=100)
def test_whatever_the_bytes_are(schema: SchemaAndPairs, data: st.DataObject) -> None:
    """Rows after a bad one are not disturbed, and what is good to us is to fastavro as well."""
    form, pairs = schema
    good = data.draw(pairs)
    start = written(form, good[0])
    bad = data.draw(st.one_of(st.binary(max_size=40), st.binary(max_size=5).map(start.__add__)))
    found = decoded(form, [start, bad, start])
    assert found[0] == found[2] == good[1]
    if isinstance(found[1], dict) and bad != start:
        plain = json.loads(json.dumps(form).replace("logicalType", "was"))
        source = io.BytesIO(bad)
        fastavro.schemaless_reader(source, plain, None)
        assert source.tell() == len(bad)


POINT = {
    "type": "record",
    "name": "Point",
    "fields": [{"name": "x", "type": "int"}, {"name": "y", "type": "double"}],
}


def record(*fields: dict[str, Any], name: str = "R") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def test_fields_that_are_gone_new_renamed_and_promoted() -> None:
    writer = record(
        {"name": "a", "type": "int"},
        {"name": "gone", "type": {"type": "map", "values": {"type": "array", "items": POINT}}},
        {"name": "old", "type": "float"},
        {"name": "b", "type": "bytes"},
    )
    reader = record(
        {"name": "b", "type": "string"},
        {"name": "new", "type": {**POINT}, "default": {"x": 7, "y": 0.5}},
        {"name": "list", "type": {"type": "array", "items": "long"}, "default": [1, 2]},
        {"name": "none", "type": ["null", "string"], "default": None},
        {"name": "renamed", "aliases": ["old"], "type": "double"},
        {"name": "a", "type": "double"},
    )
    value = {"a": 3, "gone": {"k": [{"x": 1, "y": 2.0}]}, "old": 0.25, "b": b"text"}
    expected = {
        "b": "text",
        "new": {"x": 7, "y": 0.5},
        "list": [1, 2],
        "none": None,
        "renamed": 0.25,
        "a": 3.0,
    }
    assert decoded(reader, [written(writer, value)] * 3, writer) == [expected] * 3
    # The twin agrees.
    found = fastavro.schemaless_reader(io.BytesIO(written(writer, value)), writer, reader)
    assert found == expected


def test_unions_and_enums_that_change() -> None:
    old = {"type": "enum", "name": "E", "symbols": ["A", "B", "C"]}
    new = {"type": "enum", "name": "E", "symbols": ["C", "A", "other"], "default": "other"}
    values = [written(record({"name": "e", "type": old}), {"e": each}) for each in "ABC"]
    reader = record({"name": "e", "type": new})
    found = decoded(reader, values, record({"name": "e", "type": old}))
    assert [each["e"] for each in found] == ["A", "other", "C"]

    writer = record({"name": "v", "type": ["null", "int", "string"]})
    values = [written(writer, {"v": each}) for each in (None, 5, "text")]
    found = decoded(record({"name": "v", "type": ["null", "long"]}), values, writer)
    assert found[:2] == [{"v": None}, {"v": 5}]
    assert "branch" in found[2]
    assert [each["v"] for each in decoded(writer, values)] == [
        None,
        {"member0": 5, "member1": None},
        {"member0": None, "member1": "text"},
    ]


def test_a_union_of_two_numbers_is_the_wider_one() -> None:
    whole = record(
        {"name": "a", "type": ["int", "null", "long"]},
        {"name": "b", "type": ["double", "float"], "default": 2.5},
    )
    values = [
        written(whole, {"a": a, "b": b})
        for a, b in ((None, 0.5), (5, ("float", 1.5)), (2**40, 2.0))
    ]
    found = decoded(whole, values)
    assert found == [{"a": None, "b": 0.5}, {"a": 5, "b": 1.5}, {"a": 2**40, "b": 2.0}]
    older = record({"name": "a", "type": "int"})
    assert decoded(whole, [zigzag(7)], older) == [{"a": 7, "b": 2.5}]
    times = {"type": "long", "logicalType": "timestamp-micros"}
    apart = record({"name": "a", "type": ["int", times]})
    assert decoded(apart, [b"\0" + zigzag(1)]) == [{"a": {"member0": 1, "member1": None}}]


@pytest.mark.parametrize(
    ("kind", "default", "shown"),
    [
        (["string", "null"], None, None),
        (["null", "string"], "text", "text"),
        (["null", "bytes", "double"], "\u00ff", {"member0": b"\xff", "member1": None}),
        (["null", "bytes", "double"], 0.5, {"member0": None, "member1": 0.5}),
        (["int", "boolean"], True, {"member0": None, "member1": True}),
        ({"type": "array", "items": ["null", "long"]}, [1, None], [1, None]),
        ("double", 1, 1.0),
    ],
)
def test_a_default_is_of_the_first_branch_that_it_fits(kind: Any, default: Any, shown: Any) -> None:
    reader = record({"name": "a", "type": "int"}, {"name": "b", "type": kind, "default": default})
    older = record({"name": "a", "type": "int"})
    assert decoded(reader, [zigzag(7)], older) == [{"a": 7, "b": shown}]


@pytest.mark.parametrize(
    ("kind", "default"),
    [("long", 0.5), ("int", 2**31), (["null", "long"], "null"), ("boolean", 1), ("string", None)],
)
def test_a_default_that_is_no_value_of_its_type_matters_where_it_is_needed(
    kind: Any, default: Any
) -> None:
    """As registries do not look at defaults, there are many such schemas."""
    field = {"name": "b", "type": kind, "default": default}
    reader, older = (
        record({"name": "a", "type": "int"}, field),
        record({"name": "a", "type": "int"}),
    )
    with pytest.raises(SchemaError, match="has another type"):
        decoded(reader, [zigzag(7)], older)
    row = {"a": 7, "b": {"long": 5, "int": 5, "boolean": True, "string": "x"}.get(str(kind))}
    value = written(record({"name": "a", "type": "int"}, {"name": "b", "type": kind}), row)
    assert decoded(reader, [value]) == [row]
    assert decoded(older, [value], reader) == [{"a": 7}]


@pytest.mark.parametrize(
    "attributes",
    [
        {"type": "bytes", "precision": 2, "scale": 5},
        {"type": "bytes", "precision": 0},
        {"type": "bytes", "precision": "4"},
        {"type": "fixed", "name": "F", "size": 2, "precision": 99, "scale": 2},
        {"type": "bytes", "precision": 10**400},
        {"type": "bytes"},
    ],
)
def test_a_logical_type_that_cannot_be_is_ignored(attributes: dict[str, Any]) -> None:
    """Avro's rule; and what is not read cannot make a record bad."""
    odd = record({"name": "b", "type": {**attributes, "logicalType": "decimal"}})
    value = b"\0\1" if "size" in attributes else b"\4\0\1"
    if attributes.get("precision") != 10**400:
        assert decoded(odd, [value]) == [{"b": b"\0\1"}]
    odd["fields"].append({"name": "a", "type": "int"})
    assert decoded(record({"name": "a", "type": "int"}), [value + zigzag(7)], odd) == [{"a": 7}]


def test_a_timestamp_keeps_the_unit_that_it_was_written_in() -> None:
    def at(unit: str) -> dict[str, Any]:
        return record({"name": "at", "type": {"type": "long", "logicalType": f"timestamp-{unit}"}})

    value = written(record({"name": "at", "type": "long"}), {"at": 1_700_000_000_123})
    (from_millis,) = decoded(at("micros"), [value], at("millis"))
    assert from_millis["at"].isoformat() == "2023-11-14T22:13:20.123000+00:00"
    for nanos, shown in (
        (1_700_000_000_123_456_789, "2023-11-14T22:13:20.123456+00:00"),
        (-1, "1969-12-31T23:59:59.999999+00:00"),
    ):
        value = written(record({"name": "at", "type": "long"}), {"at": nanos})
        (from_nanos,) = decoded(at("micros"), [value], at("nanos"))
        assert from_nanos["at"].isoformat() == shown


def test_uuids_in_16_bytes() -> None:
    form = {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}
    text = "01234567-89ab-cdef-fedc-ba9876543210"
    value = bytes.fromhex(text.replace("-", ""))
    assert decoded(["null", form], [b"\2" + value, b"\0", b"\2" + value]) == [text, None, text]


def zigzag(value: int) -> bytes:
    number = (value << 1) ^ (value >> 63)
    number &= 2**64 - 1
    found = b""
    while number > 127:
        found += bytes([number & 127 | 128])
        number >>= 7
    return found + bytes([number])


LONGS = record({"name": "a", "type": {"type": "array", "items": "long"}})
HUGE = 2**60


@pytest.mark.parametrize(
    ("form", "value", "reason"),
    [
        (LONGS, zigzag(HUGE), "more items than there are bytes"),
        (LONGS, zigzag(-HUGE) + zigzag(1), "more items than there are bytes"),
        (LONGS, zigzag(-(2**63)) + zigzag(1), "more items than there are bytes"),
        (LONGS, zigzag(1), "more items than there are bytes"),
        ({"type": "map", "values": "null"}, zigzag(HUGE), "more items than there are bytes"),
        ("string", zigzag(-1), "length"),
        ("string", zigzag(HUGE) + b"abc", "length"),
        ("string", zigzag(2) + b"\xc0\x80", "UTF-8"),
        ("string", zigzag(3) + b"\xed\xa0\x80", "UTF-8"),
        ("int", zigzag(2**31), "integer"),
        ("long", b"\xff" * 11, "integer"),
        ("boolean", b"\2", "boolean"),
        ("double", b"1234567", "early"),
        ("float", b"123", "early"),
        (["null", "int"], zigzag(2), "branch"),
        (["null", "int"], zigzag(-1), "branch"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, zigzag(-1), "symbol"),
        ({"type": "fixed", "name": "F", "size": 2**40}, b"abc", "length"),
        ("int", zigzag(1) + b"\0", "left over"),
        ({"type": "long", "logicalType": "timestamp-millis"}, zigzag(2**60), "time"),
    ],
)
def test_hostile_bytes(form: Any, value: bytes, reason: str) -> None:
    (found,) = decoded(form, [value])
    assert reason in found


def test_decimals_at_their_limits() -> None:
    form = {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 0}

    def value(number: int, size: int) -> bytes:
        return zigzag(size) + number.to_bytes(size, "big", signed=True)

    limit = 10**38
    for size in (16, 17, 40):
        good = decoded(form, [value(limit - 1, size), value(1 - limit, size), value(-1, size)])
        assert [int(each) for each in good] == [limit - 1, 1 - limit, -1]
        assert all(
            "digits" in each for each in decoded(form, [value(limit, size), value(-limit, size)])
        )
    assert "digits" in decoded(form, [value(2**130, 40)])[0]
    assert "length" in decoded(form, [zigzag(0)])[0]


def nested(depth: int) -> Any:
    form: Any = "long"
    for _ in range(depth):
        form = {"type": "array", "items": form}
    return form


def doubled(times: int) -> Any:
    """A schema whose every record holds the one before it twice: 2^times longs."""
    form: Any = record({"name": "a", "type": "long"}, name="R0")
    for number in range(1, times):
        fields = ({"name": "a", "type": form}, {"name": "b", "type": f"R{number - 1}"})
        form = record(*fields, name=f"R{number}")
    return form


@pytest.mark.parametrize(
    ("form", "reason"),
    [
        ({"type": "array", "items": "null"}, "take no bytes"),
        ({"type": "array", "items": record(name="Empty")}, "take no bytes"),
        (record({"name": "next", "type": ["null", "R"]}), "contains itself"),
        (doubled(40), "more than 10000 parts"),
        (nested(100_000), "nested too deeply"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 39}, "decimal"),
        ("no such type", "not an Avro schema"),
        (record({"name": "a", "type": "int"}, {"name": "a", "type": "int"}), "same name"),
        (record({"name": "a", "type": "int", "aliases": [[]]}), "not an Avro schema"),
        (record({"name": "\ud800", "type": "int"}), "not an Avro schema"),
        ({"type": "enum", "name": "E", "symbols": [{}]}, "not an Avro schema"),
        ({"type": "fixed", "name": "F", "size": 2**63}, "size"),
        ({"type": "fixed", "name": "F", "size": "4"}, "size"),
    ],
)
def test_schemas_that_are_refused(form: Any, reason: str) -> None:
    try:
        text = json.dumps(form)
    except RecursionError:
        text = '{"type":"array","items":' * 100_000 + '"long"' + "}" * 100_000
    with pytest.raises(SchemaError, match=reason):
        ValueDecoder(text, format="avro")


def test_a_writer_of_too_much_is_refused() -> None:
    reader = record({"name": "z", "type": "long", "default": 0}, name="R39")
    with pytest.raises(SchemaError, match="too large"):
        decoded(reader, [b""], doubled(40))


def test_empty_records_in_each_other_are_looked_at_once() -> None:
    """2^60 of them, which as values take no bytes."""
    empty: Any = record(name="R0")
    for number in range(1, 60):
        fields = ({"name": "a", "type": empty}, {"name": "b", "type": f"R{number - 1}"})
        empty = record(*fields, name=f"R{number}")
    with pytest.raises(SchemaError, match="take no bytes"):
        ValueDecoder(json.dumps({"type": "array", "items": empty}), format="avro")
    kept = {"name": "a", "type": "long"}
    writer = record({"name": "gone", "type": empty}, kept)
    assert decoded(record(kept), [zigzag(5)], writer) == [{"a": 5}]


TREE = record(
    {"name": "v", "type": "int"},
    {"name": "next", "type": ["null", "Tree"]},
    {"name": "more", "type": {"type": "map", "values": {"type": "array", "items": "Tree"}}},
    name="Tree",
)


def tree(depth: int) -> dict[str, Any]:
    found: dict[str, Any] = {"v": depth, "next": None, "more": {}}
    for level in range(depth):
        found = {"v": level, "next": found, "more": {"k": [{**found, "next": None}] * 2}}
    return found


def test_what_contains_itself_and_is_not_wanted_is_passed_over() -> None:
    a, b = {"name": "a", "type": "int"}, {"name": "b", "type": "string"}
    writer = record(a, {"name": "tree", "type": TREE}, b)
    values = [written(writer, {"a": n, "tree": tree(n), "b": "x"}) for n in (0, 1, 3)]
    expected = [{"a": n, "b": "x"} for n in (0, 1, 3)]
    assert decoded(record(a, b), values, writer) == expected
    cut = decoded(record(a, b), [value[:-3] for value in values], writer)
    assert all(isinstance(each, str) for each in cut)
    # Of the record itself some fields.
    reader = record({"name": "v", "type": "long"}, name="Tree")
    assert decoded(reader, [written(TREE, tree(2))], TREE) == [{"v": 1}]
    leaf = {**record({"name": "v", "type": "long"}, name="Leaf"), "aliases": ["Tree"]}
    item = {**record({"name": "next", "type": ["null", leaf]}, name="I"), "aliases": ["Tree"]}
    more = {"type": "map", "values": {"type": "array", "items": item}}
    reader = record({"name": "more", "type": more}, name="Tree")
    inner = {"next": None}
    assert decoded(reader, [written(TREE, tree(1))], TREE) == [{"more": [("k", [inner, inner])]}]


def test_it_is_passed_over_however_deep_it_is() -> None:
    chain = record({"name": "v", "type": "int"}, {"name": "next", "type": ["null", "R"]})
    b = {"name": "b", "type": "string"}
    writer = record({"name": "gone", "type": chain}, b, name="W")
    depth = 100_000
    value = (zigzag(5) + b"\2") * depth + zigzag(5) + b"\0" + b"\2x"
    assert decoded(record(b, name="W"), [value, value[:-1], value], writer)[::2] == [{"b": "x"}] * 2


def test_a_value_without_an_end_is_refused() -> None:
    kept = {"name": "a", "type": "int"}
    endless = record({"name": "one", "type": record({"name": "two", "type": "R"}, name="S")})
    writer = record(kept, {"name": "gone", "type": ["null", endless]}, name="W")
    with pytest.raises(SchemaError, match="in every value"):
        decoded(record(kept, name="W"), [zigzag(5) + b"\0"], writer)


def test_what_is_not_wanted_may_hold_anything_that_has_an_end() -> None:
    enum = {"type": "enum", "name": "E", "symbols": ["A"]}
    gone = record(
        {"name": "enum", "type": enum},
        {"name": "boolean", "type": "boolean"},
        {"name": "int", "type": "int"},
        {"name": "text", "type": "string"},
        {"name": "nulls", "type": {"type": "array", "items": "null"}},
        name="G",
    )
    kept = {"name": "a", "type": "int"}
    nulls = zigzag(2**60) + zigzag(-(2**60)) + zigzag(0) + zigzag(0)
    value = zigzag(7) + b"\5" + zigzag(2**40) + b"\2\xff" + nulls + zigzag(1)
    writer = record({"name": "gone", "type": gone}, kept)
    assert decoded(record(kept), [value], writer) == [{"a": 1}]


def test_branches_that_are_taken_back_count_as_steps() -> None:
    """Of a union's branches each is followed to its end, where it turns out to be unreadable."""
    reader: Any = record({"name": "z", "type": "long"}, name="L")
    writer: Any = record({"name": "z", "type": "boolean"}, name="L")
    for level in range(20):
        reader = record({"name": "x", "type": reader}, reader["fields"][-1], name=f"R{level}")
        below = [f"n{each}.R{level - 1}" for each in range(4)] if level else ["a.L"]
        first = writer if level else {**writer, "name": "a.L"}
        bad = {"name": "z", "type": "boolean"}
        writer = [
            record({"name": "x", "type": below if each else first}, bad, name=f"n{each}.R{level}")
            for each in range(4)
        ]
    with pytest.raises(SchemaError, match="too large"):
        decoded(reader, [b""], writer)


def test_a_default_is_read_alone() -> None:
    """A name is matched before an alias: else a default could need another one within it."""
    y = {"name": "y", "type": "long", "default": 7}
    x = {"name": "x", "aliases": ["y"], "type": "long", "default": 9}
    inner = record({"name": "text", "type": "string"}, y, x, name="Inner")
    outer = record({"name": "inner", "type": inner}, {"name": "last", "type": "long"}, name="Outer")
    default = {"inner": {"text": "a" * 50}, "last": 3}
    a = {"name": "a", "type": "long"}
    reader = record({"name": "new", "type": outer, "default": default}, a)
    found = decoded(reader, [zigzag(5)], record(a))
    assert found == [{"new": {"inner": {"text": "a" * 50, "y": 7, "x": 9}, "last": 3}, "a": 5}]
    assert decoded(inner, [b"\2a" + zigzag(1) + zigzag(2)]) == [{"text": "a", "y": 1, "x": 2}]


def test_namesakes_in_a_union() -> None:
    names = ("a.R", "b.R")
    form = [record({"name": "x", "type": "long"}, name=each) for each in names]
    first, second = decoded(form, [b"\0" + zigzag(5), b"\2" + zigzag(6)])
    assert first == {"member0": {"x": 5}, "member1": None}
    assert second == {"member0": None, "member1": {"x": 6}}


def test_a_record_that_would_take_too_much_memory() -> None:
    """A byte for each item, to each of which the reader adds a default of a megabyte."""
    writer = {"type": "array", "items": record({"name": "a", "type": "boolean"})}
    long = {"name": "b", "type": "string", "default": "x" * 2**20}
    reader = {"type": "array", "items": record({"name": "a", "type": "boolean"}, long)}
    with running_registry() as registry:
        schema_id = registry.add("writer", writer)
        decoder = ValueDecoder(json.dumps(reader), format="avro", registry=registry.url)
        values = [
            header(schema_id) + zigzag(count) + b"\1" * count + zigzag(0) for count in (2, 300, 1)
        ]
        found = decoder.decode(pa.array(values, pa.binary()))
    assert [each and len(each) for each in found.values.to_pylist()] == [2, None, 1]
    assert list(found.reasons) == [1]
    assert "takes more than" in found.reasons[1]


def test_a_decoder_travels() -> None:
    decoder = ValueDecoder(json.dumps(POINT), format="avro")
    value = written(POINT, {"x": 1, "y": 2.0})
    again = pickle.loads(pickle.dumps(decoder))
    assert again.decode(pa.array([value], pa.binary())).values.to_pylist() == [{"x": 1, "y": 2.0}]
