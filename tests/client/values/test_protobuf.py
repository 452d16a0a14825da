"""Protobuf values: what Google's library wrote is what the columns hold; what it refuses is bad."""

from __future__ import annotations

import functools
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pool, json_format, message_factory
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from drumlin import SchemaError, ValueDecoder
from drumlin.client.values.framing import header
from drumlin.client.values.protobuf.proto_files import files_of
from drumlin.client.values.registry import RegisteredSchema
from rig.servers.schema_registry import running_registry

_SCALARS = (
    *("int32", "int64", "uint32", "uint64", "sint32", "sint64"),
    *("fixed32", "fixed64", "sfixed32", "sfixed64"),
)
_OTHERS = ("float", "double", "bool", "string", "bytes", "Kind")
_FIELDS = [(f"{kind.lower()}_", kind) for kind in (*_SCALARS, *_OTHERS)]
_PLAIN = "".join(f"  {kind} {name} = {n};\n" for n, (name, kind) in enumerate(_FIELDS, 1))
_OPTIONAL = "".join(
    f"  optional {kind} o{name} = {n};\n" for n, (name, kind) in enumerate(_FIELDS, 101)
)
_REPEATED = "".join(
    f"  repeated {kind} r{name} = {n};\n" for n, (name, kind) in enumerate(_FIELDS, 201)
)
ALL = f"""
syntax = "proto3";
package all.kinds;
import "google/protobuf/timestamp.proto";
message All {{
{_PLAIN}{_OPTIONAL}{_REPEATED}
  google.protobuf.Timestamp at = 301;
  repeated google.protobuf.Timestamp times = 302;
  map<string, Inner> by_name = 303;
  map<sint64, bytes> by_number = 304;
  Inner inner = 305;
  repeated Inner inners = 306;
  oneof choice {{ Inner left = 307; string right = 308; int32 number = 309; }}
  message Inner {{
    int32 x = 1; repeated string names = 2; Deep deep = 3; repeated Deep deeps = 4;
  }}
  message Deep {{ optional sint32 y = 15; repeated int64 packed = 16; }}
}}
enum Kind {{ NONE = 0; SOME = 1; MANY = -5; }}
message Other {{ int32 a = 1; }}
"""
_KINDS = {0: "NONE", 1: "SOME", -5: "MANY"}


@functools.cache
def message_class(name: str) -> Any:
    pool = descriptor_pool.DescriptorPool()
    for file in files_of(RegisteredSchema(0, "PROTOBUF", ALL)).file:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


@functools.cache
def decoder() -> ValueDecoder:
    return ValueDecoder(ALL, format="protobuf")


def decoded(*values: bytes | None) -> list[Any]:
    """Python values, or reasons."""
    found = decoder().decode(pa.array(values, pa.binary()))
    found.values.validate(full=True)
    return [found.reasons.get(row, each) for row, each in enumerate(found.values.to_pylist())]


def plain(message: Any) -> dict[str, Any]:
    """The twin: a message of Google's library as what its columns are."""
    return {field.name: _of_field(message, field) for field in message.DESCRIPTOR.fields}


def _of_field(message: Any, field: Any) -> Any:
    value = getattr(message, field.name)
    entry = field.message_type
    if entry is not None and entry.GetOptions().map_entry:
        of_value = entry.fields_by_name["value"]
        return sorted((key, _of_value(each, of_value)) for key, each in value.items())
    if field.is_repeated:
        return [_of_value(each, field) for each in value]
    if field.has_presence and not message.HasField(field.name):
        return None
    return _of_value(value, field)


def _of_value(value: Any, field: Any) -> Any:
    if field.enum_type is not None:
        return _KINDS.get(value, str(value))
    if field.message_type is None:
        return value
    if field.message_type.full_name == "google.protobuf.Timestamp":
        whole = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=value.seconds)
        return whole + timedelta(microseconds=value.nanos // 1000)
    return plain(value)


def with_sorted_maps(found: dict[str, Any]) -> dict[str, Any]:
    return {
        name: sorted(each) if name.startswith("by_") and each else each
        for name, each in found.items()
    }


_OF_KIND: dict[str, st.SearchStrategy[Any]] = {
    **{kind: st.integers(-(2**31), 2**31 - 1) for kind in ("int32", "sint32", "sfixed32")},
    **{kind: st.integers(-(2**63), 2**63 - 1) for kind in ("int64", "sint64", "sfixed64")},
    **{kind: st.integers(0, 2**32 - 1) for kind in ("uint32", "fixed32")},
    **{kind: st.integers(0, 2**64 - 1) for kind in ("uint64", "fixed64")},
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "bool": st.booleans(),
    "string": st.text(max_size=9),
    "bytes": st.binary(max_size=9),
    "Kind": st.sampled_from([0, 1, -5, 77]),
}
_DEEP = st.fixed_dictionaries(
    {}, optional={"y": _OF_KIND["sint32"], "packed": st.lists(_OF_KIND["int64"], max_size=4)}
)
_INNER = st.fixed_dictionaries(
    {},
    optional={
        "x": _OF_KIND["int32"],
        "names": st.lists(_OF_KIND["string"], max_size=3),
        "deep": _DEEP,
        "deeps": st.lists(_DEEP, max_size=3),
    },
)
_TIME = st.fixed_dictionaries(
    {
        "seconds": st.integers(-62_135_596_800, 253_402_300_799),
        "nanos": st.integers(0, 999_999_999),
    }
)
_CHOICE = st.one_of(
    st.just({}),
    _INNER.map(lambda inner: {"left": inner}),
    _OF_KIND["string"].map(lambda text: {"right": text}),
    _OF_KIND["int32"].map(lambda number: {"number": number}),
)
_ANY = {
    **{name: _OF_KIND[kind] for name, kind in _FIELDS},
    **{f"o{name}": _OF_KIND[kind] for name, kind in _FIELDS},
    **{f"r{name}": st.lists(_OF_KIND[kind], max_size=3) for name, kind in _FIELDS},
    "at": _TIME,
    "times": st.lists(_TIME, max_size=2),
    "by_name": st.dictionaries(st.text(max_size=4), _INNER, max_size=3),
    "by_number": st.dictionaries(_OF_KIND["sint64"], _OF_KIND["bytes"], max_size=3),
    "inner": _INNER,
    "inners": st.lists(_INNER, max_size=3),
}
_PART = st.lists(st.sampled_from(sorted(_ANY)), max_size=12, unique=True)


@st.composite
def messages(draw: st.DrawFn) -> Any:
    fields = {name: draw(_ANY[name]) for name in draw(_PART)} | draw(_CHOICE)
    by_name = fields.pop("by_name", {})
    message = message_class("all.kinds.All")(**fields)
    for name, inner in by_name.items():
        inner_class = message_class("all.kinds.All.Inner")
        message.by_name[name].MergeFromString(inner_class(**inner).SerializeToString())
    return message


@given(st.lists(st.none() | messages(), max_size=5))
@settings(max_examples=150)
def test_round_trip(rows: list[Any]) -> None:
    found = decoded(*(None if row is None else row.SerializeToString() for row in rows))
    assert [each and with_sorted_maps(each) for each in found] == [
        None if row is None else plain(row) for row in rows
    ]


@given(messages(), st.data())
@settings(max_examples=150)
def test_whatever_the_bytes_are(message: Any, data: st.DataObject) -> None:
    """What Google's library refuses is bad here; what is good here, it reads the same."""
    good = message.SerializeToString()
    position = data.draw(st.integers(0, len(good)))
    odd = data.draw(st.binary(max_size=6))
    bad = good[:position] + odd + good[position + data.draw(st.integers(0, 3)) :]
    first, found, last = decoded(good, bad, good)
    assert with_sorted_maps(first) == with_sorted_maps(last) == plain(message)
    try:
        twin = message_class("all.kinds.All").FromString(bad)
    except DecodeError:
        assert isinstance(found, str)
        return
    if isinstance(found, dict):
        known = plain(twin)
        for name, value in found.items():
            # Of keys that are there twice columns show both.
            assert name.startswith("by_") or value == known[name] or value != value


def tag(number: int, wire: int) -> bytes:
    value = number << 3 | wire
    found = b""
    while value > 127:
        found += bytes([value & 127 | 128])
        value >>= 7
    return found + bytes([value])


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (tag(14, 2) + b"\xff" * 9 + b"\1" + b"abc", "early"),
        (tag(14, 2) + b"\xff\xff\xff\xff\x07abc", "early"),
        (tag(14, 2) + b"\2\xff\xfe", "UTF-8"),
        (tag(1, 0) + b"\xff" * 11, "early"),
        (b"\0\1", "number"),
        (tag(900, 3) * 1_000_000, "early"),
        (tag(900, 3) * 200 + tag(900, 4) * 200, "early"),
        (tag(900, 4), "early"),
        (tag(1, 6), "early"),
        (tag(301, 2) + b"\x0b" + tag(1, 0) + b"\xff" * 8 + b"\x7f", "early"),
        (tag(301, 2) + b"\x0a" + tag(1, 0) + b"\xff" * 8 + b"\x7f", "time"),
        (tag(305, 2) + b"\2" + tag(1, 0) + b"\1" + tag(305, 2) + b"\0", "twice"),
    ],
)
def test_hostile_bytes(value: bytes, reason: str) -> None:
    (found,) = decoded(value)
    assert isinstance(found, str)
    assert reason in found


def test_unknown_fields_groups_and_other_wire_types_are_passed_over() -> None:
    group = tag(900, 3) + tag(5, 0) + b"\1" + tag(7, 3) + tag(7, 4) + tag(900, 4)
    (found,) = decoded(group + tag(1, 2) + b"\1x" + tag(2, 0) + b"\5" + tag(999, 5) + b"1234")
    assert found["int32_"] == 0
    assert found["int64_"] == 5


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("message A { int32 a = 1 }", "not a Protobuf schema"),
        ("enum E { A = 0; }", "no message"),
        ('import "../../etc/passwd"; message A {}', "not a Protobuf schema"),
        ("message A {" * 5000 + "}" * 5000, "not a Protobuf schema"),
        (
            "".join(f"message M{n} {{ M{n + 1} a = 1; }}" for n in range(1500))
            + "message M1500 {}",
            "nested too deeply",
        ),
        ("message A {} //\ud800", "surrogates"),
    ],
)
def test_schemas_that_are_refused(text: str, reason: str) -> None:
    with pytest.raises(SchemaError, match=reason):
        ValueDecoder(f'syntax = "proto3"; {text}', format="protobuf")


TREE = """syntax = "proto3"; import "google/protobuf/struct.proto";
message Tree {
  int32 v = 1; Tree next = 2; repeated Tree more = 3; map<string, Tree> named = 4; int32 last = 5;
}
message Holder { int32 a = 1; google.protobuf.Struct data = 2; Tree tree = 3; }
"""


def test_where_a_message_contains_itself_the_one_within_is_its_bytes() -> None:
    decoder = ValueDecoder(TREE, format="protobuf")
    leaf = b"\x08\5"
    inner = b"\x12" + bytes([len(leaf)]) + leaf + b"\x08\4"
    parts = [b"\x08\3"]
    parts += [b"\x12" + bytes([len(inner)]) + inner]
    parts += [b"\x1a" + bytes([len(each)]) + each for each in (inner, b"", leaf)]
    entries = [b"\x0a\1a\x12" + bytes([len(leaf)]) + leaf, b"\x0a\1b"]
    parts += [b"\x22" + bytes([len(each)]) + each for each in entries]
    values = [b"".join(parts) + b"\x28\7", b"\x08\1", b"\x12\2\x08\5\x12\2\x08\6"]
    found = decoder.decode(pa.array(values, pa.binary()))
    named = [("a", leaf), ("b", b"")]
    first = {"v": 3, "next": inner, "more": [inner, b"", leaf], "named": named, "last": 7}
    nothing = {"next": None, "more": [], "named": [], "last": 0}
    assert found.values.to_pylist() == [first, {"v": 1, **nothing}, None]
    assert "twice" in found.reasons[2], "parsers would merge the two"
    # And they can be decoded by the same decoder.
    again = decoder.decode(pa.array([inner, leaf], pa.binary())).values.to_pylist()
    assert again == [{"v": 4, **nothing, "next": leaf}, {"v": 5, **nothing}]


def test_structs_of_any_depth_are_no_reason_to_refuse_a_message() -> None:
    files = files_of(RegisteredSchema(0, "PROTOBUF", TREE))
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)
    holder = message_factory.GetMessageClass(pool.FindMessageTypeByName("Holder"))
    message = json_format.ParseDict({"a": 1, "data": {"x": 1.5, "y": {"z": "s"}}}, holder())
    decoder = ValueDecoder(TREE, format="protobuf", message="Holder")
    (found,) = decoder.decode(
        pa.array([message.SerializeToString()], pa.binary())
    ).values.to_pylist()
    fields = dict(found["data"]["fields"])
    assert (found["a"], found["tree"], fields["x"]["number_value"]) == (1, None, 1.5)
    within = fields["y"]["struct_value"]
    assert within == message.data.fields["y"].struct_value.SerializeToString()


@pytest.mark.parametrize("name", ["a/b", "\ud800", "../a", "x" * 300])
def test_names_of_imports_that_are_refused(name: str) -> None:
    schema = RegisteredSchema(1, "PROTOBUF", "message A {}", (("a", ""), (name, "")))
    with pytest.raises(SchemaError, match="no schema is imported as"):
        files_of(schema)


@pytest.mark.parametrize("of_file", [True, False])
def test_groups_of_editions_are_refused(of_file: bool) -> None:
    option = "features.message_encoding = DELIMITED"
    text = "message A { map<int32, B> m = 1; B b = 2 %s; } message B { int32 x = 1; }"
    text = f"option {option}; {text % ''}" if of_file else text % f"[{option}]"
    with pytest.raises(SchemaError, match=r"value\.b: groups are not supported"):
        ValueDecoder(f'edition = "2023"; {text}', format="protobuf")


DEFAULTS = r"""
syntax = "proto2";
message A {
  optional int32 i32 = 1 [default = -5]; optional sint64 s64 = 2 [default = -9223372036854775808];
  optional uint32 u32 = 3 [default = 4294967295];
  optional fixed64 f64 = 4 [default = 18446744073709551615];
  optional float f = 5 [default = -inf]; optional double d = 6 [default = 1e-7];
  optional bool b = 7 [default = true];
  optional string s = 8 [default = "a\"\u00e9"]; optional bytes o = 9 [default = "\000\xff'"];
  optional Kind k = 10 [default = DUE]; required int32 r = 11; repeated int32 l = 12;
  optional B inner = 13; optional string empty = 14 [default = ""]; repeated B inners = 15;
  oneof choice { int32 x = 16 [default = 7]; string y = 17 [default = "y"]; }
}
message B { optional int32 z = 1 [default = 3]; }
enum Kind { option allow_alias = true; ONE = 1; TWO = 2; DUE = 2; }
"""


def test_what_is_left_out_has_the_default_that_the_schema_declares() -> None:
    """As in `from_protobuf` and Google's libraries; of a oneof, which one is there can be seen."""
    pool = descriptor_pool.DescriptorPool()
    for file in files_of(RegisteredSchema(0, "PROTOBUF", DEFAULTS)).file:
        pool.Add(file)
    empty = message_factory.GetMessageClass(pool.FindMessageTypeByName("A"))()
    older = ValueDecoder(DEFAULTS, format="protobuf")
    inner = b"\x6a\0\x7a\0\x7a\2\x08\4"
    found = older.decode(pa.array([b"", inner, b"\x08\0", None], pa.binary()))
    found.values.validate(full=True)
    first, second, third, null = found.values.to_pylist()
    plain = ("i32", "s64", "u32", "f64", "f", "d", "b", "s", "o", "empty")
    assert [first[each] for each in plain] == [getattr(empty, each) for each in plain]
    assert (first["k"], first["r"], first["l"]) == ("TWO", None, [])
    assert (first["inner"], first["inners"]) == (None, [])
    assert (first["x"], first["y"]) == (None, None)
    assert (second["inner"], second["inners"]) == ({"z": 3}, [{"z": 3}, {"z": 4}])
    assert (third["i32"], third["s64"]) == (0, -(2**63))
    assert null is None
    assert not found.reasons


def test_long_defaults_count_as_memory() -> None:
    text = f'message A {{ optional string a = 1 [default = "{"x" * 100_000}"]; }}'
    older = ValueDecoder(f'syntax = "proto2"; {text}', format="protobuf")
    rows = 6000
    pieces = list(older.pieces(pa.array([b""] * rows, pa.binary())))
    assert len(pieces) > 1
    assert sum(len(piece.values) for _, piece in pieces) == rows


def test_presence_of_the_older_syntax() -> None:
    text = "message A { optional int32 a = 1; required string b = 2; }"
    older = ValueDecoder(f'syntax = "proto2"; {text}', format="protobuf")
    found = older.decode(pa.array([b""], pa.binary())).values.to_pylist()
    assert found == [{"a": None, "b": None}]


def test_a_registry_with_imports_and_messages_within_messages() -> None:
    with running_registry() as rig:
        rig.add("common", 'syntax = "proto3"; package c; message P { int32 x = 1; }', "PROTOBUF")
        text = """syntax = "proto3"; package t; import "common/p.proto";
        message Unused { message Nested { c.P p = 1; } }
        message Wanted { string a = 1; }"""
        references = [{"name": "common/p.proto", "subject": "common", "version": 1}]
        schema_id = rig.add("t-value", text, "PROTOBUF", references)
        nested = ValueDecoder(
            format="protobuf", registry=rig.url, subject="t-value", message="t.Unused.Nested"
        )
        wanted = ValueDecoder(
            format="protobuf", registry=rig.url, subject="t-value", message="t.Wanted"
        )
        values = pa.array(
            [
                header(schema_id) + b"\4\0\0" + b"\x0a\2\x08\7",  # path of two: 0, 0
                header(schema_id) + b"\2\2" + b"\x0a\1z",  # path of one: 1
                header(schema_id) + b"\2\x0e",  # path of one: 7
                header(schema_id) + b"\xff" * 20,
                header(schema_id),
            ],
            pa.binary(),
        )
        found, other = nested.decode(values), wanted.decode(values)
    assert found.values.to_pylist() == [{"p": {"x": 7}}, None, None, None, None]
    assert "message t.Wanted, not t.Unused.Nested" in found.reasons[1]
    assert "no message at [7]" in found.reasons[2]
    assert "message indexes" in found.reasons[3]
    assert "message indexes" in found.reasons[4]
    assert other.values.to_pylist() == [None, {"a": "z"}, None, None, None]


def test_a_message_that_is_not_there() -> None:
    with pytest.raises(SchemaError, match=r"no message 'all.Kinds': there are .*all\.kinds\.All"):
        ValueDecoder(ALL, format="protobuf", message="all.Kinds")
