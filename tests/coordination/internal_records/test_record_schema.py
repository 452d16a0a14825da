"""What the records of internal topics have around their fields: types, versions, and errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import pytest

from drumlin.coordination.internal_records.record_schema import (
    KeySchema,
    UnreadableRecord,
    ValueSchema,
    number_of,
)
from drumlin.wire.error_codes import KafkaError
from drumlin.wire.schema.declaration import Tag, Versions, message
from drumlin.wire.schema.types import Int8


class Key(NamedTuple):
    name: str


@dataclass(frozen=True, slots=True)
class Thing:
    a: Int8
    b: Annotated[Int8, Versions(1, 1)] = -5
    c: Annotated[str | None, Tag(0)] = None


def schema(**versions: int) -> ValueSchema[Thing]:
    return ValueSchema("a thing", Thing, **versions)  # type: ignore[arg-type]


def test_keys_are_never_flexible() -> None:
    subject = KeySchema(7, Key)
    assert subject.encode(Key("ab")).hex(" ") == "00 07 00 02 61 62"
    assert number_of(subject.encode(Key("ab"))) == subject.key_type
    assert subject.decode(subject.encode(Key("ab"))) == Key("ab")


def test_a_value_begins_with_its_version() -> None:
    versions: Any = {"last_version": 2, "first_flexible_version": 2}
    value = Thing(1, 2, "x")
    written = [schema(written_version=each, **versions).encode(value) for each in range(3)]
    assert [data.hex(" ") for data in written] == [
        "00 00 01",
        "00 01 01 02",
        "00 02 01 01 00 02 02 78",
    ]
    assert [schema(**versions).decode(data) for data in written] == [
        Thing(1),
        Thing(1, 2),
        Thing(1, c="x"),
    ]


@pytest.mark.parametrize("version", [b"\0\3", b"\xff\xff"])
def test_a_version_that_is_not_known_is_refused(version: bytes) -> None:
    with pytest.raises(UnreadableRecord, match="a thing of version"):
        schema(last_version=2).decode(version + b"\1\0")


@pytest.mark.parametrize(
    "data", [b"", b"\0", b"\0\0", b"\0\0\1", b"\0\0\1\1\0", b"\0\0\1\1\0\2\2\xff"]
)
def test_bytes_that_are_no_record_are_refused(data: bytes) -> None:
    with pytest.raises(UnreadableRecord):
        schema().decode(data)


@message
class Fields:
    number: Int8


def test_a_value_may_mean_something_else() -> None:
    subject = ValueSchema("a thing", Fields, lambda fields: str(fields.number), _fields_of)
    assert subject.encode("7").hex(" ") == "00 00 07 00"
    assert subject.decode(b"\0\0\7\0") == "7"


def _fields_of(value: str) -> Fields:
    return Fields(number=int(value))


@pytest.mark.parametrize("first_flexible_version", [0, 1])
def test_a_string_that_is_too_long_is_refused(first_flexible_version: int) -> None:
    subject = ValueSchema[Key]("a name", Key, first_flexible_version=first_flexible_version)
    with pytest.raises(KafkaError, match="32767 fit"):
        subject.encode(Key("x" * 2**15))
