"""Schemas of internal topics' records: each feature, byte by byte."""

from __future__ import annotations

from contextlib import suppress
from typing import Any
from uuid import NAMESPACE_DNS, uuid5

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumlin.coordination.internal_records.record_fields import FieldReader, UnreadableRecord
from drumlin.coordination.internal_records.record_schema import (
    BYTES,
    INT8,
    INT16,
    INT32,
    INT64,
    NULLABLE_STRING,
    STRING,
    UUID,
    Array,
    Encoded,
    Field,
    KeySchema,
    NullableArray,
    NullableStruct,
    Struct,
    ValueSchema,
)
from drumlin.wire.error_codes import KafkaError

ID = uuid5(NAMESPACE_DNS, "a topic")


def schema(*fields: Field, **versions: int) -> ValueSchema[tuple[Any, ...]]:
    """For values that are tuples of the fields' values."""
    return ValueSchema("a thing", lambda *values: values, *fields, parts_of=tuple, **versions)


def check(subject: ValueSchema[Any], value: tuple[Any, ...], data: str) -> None:
    assert subject.encode(value).hex(" ") == data
    assert subject.decode(bytes.fromhex(data)) == value


def test_fields_of_fixed_sizes() -> None:
    fields = (Field("a", INT8), Field("b", INT16), Field("c", INT32), Field("d", INT64))
    data = "00 00 ff 00 02 00 00 00 03 00 00 00 00 00 00 00 04"
    check(schema(*fields, first_flexible_version=1), (-1, 2, 3, 4), data)
    check(schema(*fields), (-1, 2, 3, 4), data + " 00")


def test_lengths_are_compact_from_the_first_flexible_version_on() -> None:
    fields = (Field("a", STRING), Field("b", NULLABLE_STRING), Field("c", BYTES))
    old = schema(*fields, last_version=1, written_version=0, first_flexible_version=1)
    new = schema(*fields, last_version=1, first_flexible_version=1)
    value = ("ä", None, b"xyz")
    check(old, value, "00 00 00 02 c3 a4 ff ff 00 00 00 03 78 79 7a")
    check(new, value, "00 01 03 c3 a4 00 04 78 79 7a 00")
    assert old.decode(new.encode(value)) == new.decode(old.encode(value)) == value


def test_arrays_and_structs() -> None:
    pair = Struct(Field("id", UUID), Field("numbers", Array(INT32)))
    raw_id = ID.bytes.hex(" ")
    check(
        schema(Field("a", Array(pair))), ([(ID, [5])],), f"00 00 02 {raw_id} 02 00 00 00 05 00 00"
    )
    fixed = Struct(Field("a", INT8), Field("b", INT16))
    check(
        schema(Field("a", Array(fixed))), ([(1, 2), (3, 4)],), "00 00 03 01 00 02 00 03 00 04 00 00"
    )
    rigid = schema(Field("a", Array(fixed)), first_flexible_version=1)
    check(rigid, ([(1, 2)],), "00 00 00 00 00 01 01 00 02")
    null = schema(Field("a", Encoded(NullableArray(INT8))))
    assert null.encode((b"\0",)).hex() == "00000000"
    assert null.decode(bytes.fromhex("00000000")) == ([],)


def test_very_many_structs() -> None:
    subject = schema(Field("a", Array(Struct(Field("a", INT64), Field("b", INT8)))))
    value = ([(number, number % 100) for number in range(1000)],)
    assert subject.decode(subject.encode(value)) == value


def test_tags() -> None:
    subject = schema(
        Field("a", INT8),
        Field("b", INT64, tag=0, default=0),
        Field("c", Array(INT32), tag=2, default=[]),
    )
    check(subject, (1, 0, []), "00 00 01 00")
    check(subject, (1, 7, []), "00 00 01 01 00 08 00 00 00 00 00 00 00 07")
    check(subject, (1, 0, [9]), "00 00 01 01 02 05 02 00 00 00 09")
    with_unknown = bytes.fromhex("000001 02 00 08 0000000000000007 63 03 010203")
    assert subject.decode(with_unknown) == (1, 7, [])
    with pytest.raises(UnreadableRecord, match="a tagged field of 4 bytes instead of 8"):
        subject.decode(bytes.fromhex("000001 01 00 04 00000007"))


def test_a_tag_that_is_always_written() -> None:
    classic = Struct(Field("timeout", INT32))
    tagged = Field("a", NullableStruct(classic), tag=0, always_written=True)
    subject = schema(tagged)
    check(subject, (None,), "00 00 01 00 01 00")
    check(subject, ((9,),), "00 00 01 00 06 01 00 00 00 09 00")
    assert subject.decode(b"\0\0\0") == (None,)


def test_versions() -> None:
    member = Struct(Field("x", INT8), Field("y", INT8, since=2, default=-1))
    fields = (
        Field("a", INT8),
        Field("b", INT8, since=1, until=1, default=-5),
        Field("c", Array(member)),
    )
    kinds = {"last_version": 2, "first_flexible_version": 9}
    values = (1, 2, [(3, 4)])
    written = [schema(*fields, written_version=each, **kinds).encode(values) for each in range(3)]
    assert [data.hex(" ") for data in written] == [
        "00 00 01 00 00 00 01 03",
        "00 01 01 02 00 00 00 01 03",
        "00 02 01 00 00 00 01 03 04",
    ]
    subject = schema(*fields, **kinds)
    read = [subject.decode(data) for data in written]
    assert read == [(1, -5, [(3, -1)]), (1, 2, [(3, -1)]), (1, -5, [(3, 4)])]
    for version in (b"\0\3", b"\xff\xff"):
        with pytest.raises(UnreadableRecord, match="a thing of version"):
            subject.decode(version + written[0][2:])


def test_keys_are_never_flexible() -> None:
    subject = KeySchema(7, str, Field("name", STRING), parts_of=lambda key: (key,))
    assert subject.encode("ab").hex(" ") == "00 07 00 02 61 62"
    reader = FieldReader(subject.encode("ab"))
    assert reader.int16() == subject.key_type
    assert subject.read(reader) == "ab"


def test_a_string_that_is_too_long_is_refused() -> None:
    for flexible in (0, 1):
        with pytest.raises(KafkaError, match="32767 fit"):
            schema(Field("a", STRING), first_flexible_version=flexible).encode(("x" * 2**15,))


_ALL = schema(
    Field("a", INT64),
    Field("b", NULLABLE_STRING),
    Field("c", Array(Struct(Field("id", UUID), Field("d", Array(INT32)), Field("e", BYTES)))),
    Field("f", Array(STRING)),
    Field("g", INT16, tag=3, default=0),
    Field("h", Array(INT64), tag=4, default=[]),
)
_INTS = st.integers(-(2**31), 2**31 - 1)
_VALUES = st.tuples(
    st.integers(-(2**63), 2**63 - 1),
    st.none() | st.text(max_size=200),
    st.lists(st.tuples(st.uuids(), st.lists(_INTS, max_size=200), st.binary(max_size=300))),
    st.lists(st.text(max_size=5)),
    st.integers(-(2**15), 2**15 - 1),
    st.lists(_INTS),
)


@given(_VALUES, st.integers(min_value=1))
def test_what_is_written_is_read_and_nothing_less(value: tuple[Any, ...], cut: int) -> None:
    data = _ALL.encode(value)
    assert _ALL.decode(data) == value
    with pytest.raises(UnreadableRecord):
        _ALL.decode(data[: -1 - cut % len(data)] if len(data) > cut % len(data) + 1 else b"")


@given(st.binary(max_size=100))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with suppress(UnreadableRecord):
        _ALL.decode(b"\0\0" + data)
