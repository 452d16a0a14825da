"""The language of messages, feature by feature and byte by byte."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple
from uuid import NAMESPACE_DNS, UUID, uuid5

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumlin.wire.error_codes import ErrorCode, MalformedMessage
from drumlin.wire.schema.declaration import NullFrom, Tag, Versions, message
from drumlin.wire.schema.decoder import admit, decode
from drumlin.wire.schema.encoder import StringTooLong, encode
from drumlin.wire.schema.parts import EncodedItems
from drumlin.wire.schema.types import Int8, Int16, Int32, Int64

ID = uuid5(NAMESPACE_DNS, "a topic")


def check(value: Any, data: str, version: int = 0, *, flexible: bool = True) -> None:
    """Both ways."""
    assert encode(value, version, flexible=flexible).hex(" ") == data
    raw = bytes.fromhex(data)
    assert decode(type(value), version, raw, flexible=flexible) == value
    assert decode(type(value), version, b"?" + raw + b"?", 1, flexible=flexible) == value


def read(cls: type[Any], data: str, version: int = 0, *, flexible: bool = True) -> Any:
    return decode(cls, version, bytes.fromhex(data), flexible=flexible)


@message
class Numbers:
    a: Int8
    b: Int16
    c: Int32
    d: Int64
    e: bool
    f: ErrorCode


def test_fields_of_fixed_sizes() -> None:
    value = Numbers(a=-1, b=2, c=3, d=4, e=True, f=ErrorCode.unknown_server_error)
    data = "ff 00 02 00 00 00 03 00 00 00 00 00 00 00 04 01 ff ff"
    check(value, data, flexible=False)
    check(value, data + " 00")


@message
class Texts:
    a: str
    b: str | None
    c: bytes
    d: Annotated[str | None, NullFrom(1)]


def test_flexible_lengths_are_compact() -> None:
    value = Texts(a="ä", b=None, c=b"xyz", d="")
    check(value, "00 02 c3 a4 ff ff 00 00 00 03 78 79 7a 00 00", flexible=False)
    check(value, "03 c3 a4 00 04 78 79 7a 01 00")


def test_null_is_refused_where_a_version_does_not_know_it() -> None:
    null = "03 c3 a4 00 04 78 79 7a 00 00"
    assert read(Texts, null, version=1).d is None
    with pytest.raises(MalformedMessage, match="d is null"):
        read(Texts, null, version=0)


class Pair(NamedTuple):
    a: Int8
    b: Int16


@dataclass(frozen=True, slots=True)
class Place:
    id: UUID
    numbers: tuple[Int32, ...]


@message
class Arrays:
    pairs: tuple[Pair, ...]
    places: tuple[Place, ...]
    names: tuple[str, ...] | None
    ids: tuple[UUID | None, ...]


def test_arrays_of_any_kind_of_class() -> None:
    raw_id, no_id = ID.bytes.hex(" "), bytes(16).hex(" ")
    value = Arrays(
        pairs=(Pair(1, 2), Pair(3, 4)),
        places=(Place(ID, (5,)),),
        names=("a",),
        ids=(ID, None),
    )
    check(
        value,
        f"03 01 00 02 00 03 00 04 00 02 {raw_id} 02 00 00 00 05 00 02 02 61 03 {raw_id} {no_id} 00",
    )
    check(Arrays(pairs=(), places=(), names=None, ids=()), "01 01 00 01 00")
    empty = Arrays(pairs=(Pair(1, 2),), places=(), names=None, ids=())
    check(
        empty,
        "00 00 00 01 01 00 02 00 00 00 00 ff ff ff ff 00 00 00 00",
        flexible=False,
    )


def test_very_many_structs() -> None:
    many = tuple(Pair(number % 100, number) for number in range(1000))
    value = Arrays(pairs=many, places=(), names=(), ids=())
    assert decode(Arrays, 0, encode(value, 0, flexible=True), flexible=True) == value


def test_structs_that_are_encoded_already() -> None:
    """One item may hold several of them."""
    known = EncodedItems([bytes.fromhex("01 0002 00 03 0004 00")], 2)
    value = Arrays(pairs=known, places=(), names=None, ids=())
    assert encode(value, 0, flexible=True).hex(" ") == "03 01 00 02 00 03 00 04 00 01 00 01 00"


@message
class Tagged:
    a: Int8
    b: Annotated[Int64, Tag(0)] = 0
    c: Annotated[tuple[Int32, ...], Tag(2)] = ()


def test_tags() -> None:
    check(Tagged(a=1), "01 00")
    check(Tagged(a=1, b=7), "01 01 00 08 00 00 00 00 00 00 00 07")
    check(Tagged(a=1, c=(9,)), "01 01 02 05 02 00 00 00 09")
    both = "01 02 00 08 00 00 00 00 00 00 00 07 02 05 02 00 00 00 09"
    check(Tagged(a=1, b=7, c=(9,)), both)
    assert read(Tagged, "01", flexible=False) == Tagged(a=1)


def test_tags_that_are_not_known_are_skipped() -> None:
    with_unknown = "01 02 00 08 0000000000000007 63 03 010203"
    assert read(Tagged, with_unknown) == Tagged(a=1, b=7)


def test_of_a_tag_that_comes_twice_the_last_one_counts() -> None:
    twice = "01 02 00 08 0000000000000007 00 08 0000000000000008"
    assert read(Tagged, twice) == Tagged(a=1, b=8)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("01 01 00 04 00000007", r"b .tagged field 0. does not fill 4 bytes|ends early"),
        ("01 01 00 09 000000000000000700", "b .tagged field 0. does not fill 9 bytes"),
        ("01 01 02 7f 01", "tagged field 2 of 127 bytes ends after the frame"),
        ("01 21" + "63 00" * 33, "33 tagged fields; 32 are allowed"),
        ("01 01 02 01 ff", "varint|ends early"),
    ],
)
def test_tags_that_do_not_fit_are_refused(data: str, said: str) -> None:
    with pytest.raises(MalformedMessage, match=said):
        read(Tagged, data)


@message
class Inner:
    timeout: Int32


@message
class Optional:
    plain: Inner | None
    always: Annotated[Inner | None, Tag(0, is_always_written=True)] = None


def test_structs_that_may_be_null() -> None:
    """One byte tells, and it is another one for tagged structs (KIP-893)."""
    check(Optional(plain=None), "ff 01 00 01 00")
    one = Inner(timeout=9)
    check(Optional(plain=one, always=one), "01 00 00 00 09 00 01 00 06 01 00 00 00 09 00")
    assert read(Optional, "ff 00") == Optional(plain=None)


@message
class Member:
    x: Int8
    y: Annotated[Int8, Versions(2)] = -1


@message
class Versioned:
    a: Int8
    b: Annotated[Int8, Versions(1, 1)] = -5
    c: tuple[Member, ...]


def test_versions() -> None:
    value = Versioned(a=1, b=2, c=(Member(x=3, y=4),))
    written = [encode(value, version, flexible=False) for version in range(3)]
    assert [data.hex(" ") for data in written] == [
        "01 00 00 00 01 03",
        "01 02 00 00 00 01 03",
        "01 00 00 00 01 03 04",
    ]
    assert [
        decode(Versioned, version, data, flexible=False) for version, data in enumerate(written)
    ] == [
        Versioned(a=1, c=(Member(x=3),)),
        Versioned(a=1, b=2, c=(Member(x=3),)),
        Versioned(a=1, c=(Member(x=3, y=4),)),
    ]


def test_a_string_that_is_too_long_is_refused() -> None:
    longest = "x" * (2**15 - 1)
    for flexible in (False, True):
        value = Texts(a=longest, b=None, c=b"", d="")
        data = encode(value, 0, flexible=flexible)
        assert decode(Texts, 0, data, flexible=flexible) == value
        with pytest.raises(StringTooLong, match="32767 fit"):
            encode(Texts(a=longest + "x", b=None, c=b"", d=""), 0, flexible=flexible)


def test_a_string_of_a_response_that_is_too_long_is_cut() -> None:
    for flexible in (False, True):
        for text, shown in (("x" * 40_000, 32_767), ("\N{EURO SIGN}" * 11_000, 10_922), ("", 0)):
            value = Texts(a=text, b=None, c=b"", d=text)
            data = encode(value, 0, flexible=flexible, cuts=True)
            cut = Texts(a=text[:shown], b=None, c=b"", d=text[:shown])
            assert decode(Texts, 0, data, flexible=flexible) == cut


def test_elements_are_counted_over_all_arrays() -> None:
    data = encode(
        Arrays(pairs=(Pair(1, 2),) * 5, places=(), names=("",) * 5, ids=()), 0, flexible=True
    )
    try:
        admit(10)
        decode(Arrays, 0, data, flexible=True)
        admit(9)
        with pytest.raises(MalformedMessage, match="names has 5 elements: too many"):
            decode(Arrays, 0, data, flexible=True)
    finally:
        admit(math.inf)
    decode(Arrays, 0, data, flexible=True)


_INTS = st.integers(-(2**31), 2**31 - 1)
_SHORT = st.integers(-(2**15), 2**15 - 1)


@message
class Row:
    id: UUID
    d: tuple[Int32, ...]
    e: bytes


@message
class Everything:
    a: Int64
    b: str | None
    c: tuple[Row, ...]
    f: tuple[str, ...]
    g: Annotated[Int16, Tag(3)] = 0
    h: Annotated[tuple[Int64, ...], Tag(4)] = ()


_ROWS = st.builds(
    Row,
    id=st.uuids(),
    d=st.lists(_INTS, max_size=200).map(tuple),
    e=st.binary(max_size=300),
)
_VALUES = st.builds(
    Everything,
    a=st.integers(-(2**63), 2**63 - 1),
    b=st.none() | st.text(max_size=200),
    c=st.lists(_ROWS, max_size=5).map(tuple),
    f=st.lists(st.text(max_size=5)).map(tuple),
    g=_SHORT,
    h=st.lists(_INTS).map(tuple),
)


@given(_VALUES, st.integers(min_value=1))
def test_what_is_written_is_read_and_nothing_less(value: Everything, cut: int) -> None:
    data = encode(value, 0, flexible=True)
    assert decode(Everything, 0, data, flexible=True) == value
    with pytest.raises(MalformedMessage):
        decode(Everything, 0, data[: cut % len(data)], flexible=True)


@given(st.binary(max_size=100), st.booleans())
def test_any_bytes_are_read_or_refused(data: bytes, flexible: bool) -> None:
    with suppress(MalformedMessage):
        decode(Everything, 0, data, flexible=flexible)
