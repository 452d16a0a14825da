"""The types of fields. Those without a conversion are named as in Kafka's own descriptions."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Annotated, Any, Final, TypeAlias
from uuid import UUID

from drumlin.wire.error_codes import ErrorCode, error_of

ZERO: Final = timedelta(0)
_MILLISECOND: Final = timedelta(milliseconds=1)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NULL_UUID: Final = bytes(16)
_UUIDS_KEPT: Final = 4096
#: The longest string in bytes. Kafka applies this limit to strings with compact lengths, too.
STRING_BYTES_MAX: Final = 2**15 - 1


def beginning(text: str, bytes_max: int) -> str:
    """The longest prefix of a text that fits into `bytes_max`: nearly always the whole text."""
    encoded = text.encode()
    if len(encoded) <= bytes_max:
        return text
    return encoded[:bytes_max].decode(errors="ignore")


@dataclass(frozen=True, slots=True)
class Fixed:
    """A type whose values all have the same size.

    code: its format for `struct`.
    to_packed, from_packed: convert a field's value to the one that `struct` packs, and back;
        None: no conversion is needed.
    """

    name: str
    code: str
    to_packed: Callable[[Any], Any] | None = None
    from_packed: Callable[[Any], Any] | None = None

    @property
    def size(self) -> int:
        return struct.calcsize(">" + self.code)

    @property
    def is_plain(self) -> bool:
        """Whether values need no conversion for `struct`."""
        return self.to_packed is None and self.from_packed is None


@dataclass(frozen=True, slots=True)
class Sized:
    """Text or bytes, preceded by their length."""

    name: str


@dataclass(frozen=True, slots=True)
class Array:
    """Elements of one type; read as a tuple."""

    of: Type


@dataclass(frozen=True, slots=True)
class Struct:
    """The fields of another class."""

    of: Any


Type: TypeAlias = Fixed | Sized | Array | Struct


def type_name(type_: Type) -> str:
    """Kafka's name for a type of fixed size, text or bytes; empty for arrays and structs."""
    return type_.name if isinstance(type_, Fixed | Sized) else ""


# -- conversions ---------------------------------------------------------------------------


@lru_cache(maxsize=_UUIDS_KEPT)
def _uuid(raw: bytes) -> UUID:
    return UUID(bytes=raw)


@lru_cache(maxsize=_UUIDS_KEPT)
def _uuid_or_none(raw: bytes) -> UUID | None:
    return None if raw == _NULL_UUID else UUID(bytes=raw)


def _uuid_bytes(value: UUID | None) -> bytes:
    return _NULL_UUID if value is None else value.bytes


def _milliseconds(value: timedelta) -> int:
    return value.days * 86_400_000 + value.seconds * 1000 + round(value.microseconds / 1000)


def _moment(milliseconds: int) -> datetime:
    return _EPOCH + milliseconds * _MILLISECOND


def _moment_or_none(milliseconds: int) -> datetime | None:
    return None if milliseconds == -1 else _moment(milliseconds)


def _moment_milliseconds(value: datetime | None) -> int:
    return -1 if value is None else round(value.timestamp() * 1000)


# -- types ---------------------------------------------------------------------------------

INT32: Final = Fixed("int32", "i")

Int8 = Annotated[int, Fixed("int8", "b")]
Int16 = Annotated[int, Fixed("int16", "h")]
UInt16 = Annotated[int, Fixed("uint16", "H")]
Int32 = Annotated[int, INT32]
Int64 = Annotated[int, Fixed("int64", "q")]
Float64 = Annotated[float, Fixed("float64", "d")]
#: Durations in milliseconds, and a moment in milliseconds since 1970.
Milliseconds32 = Annotated[
    timedelta, Fixed("timedelta_i32", "i", _milliseconds, _MILLISECOND.__mul__)
]
Milliseconds64 = Annotated[
    timedelta, Fixed("timedelta_i64", "q", _milliseconds, _MILLISECOND.__mul__)
]
Moment = Annotated[datetime, Fixed("datetime_i64", "q", _moment_milliseconds, _moment)]
#: Written unchanged: bytes, or any object with a length, such as a slice of a file.
Records = Annotated[Any, Sized("records")]

STRING: Final = Sized("string")
#: The types of fields whose annotation is just a class.
PLAIN: Final[dict[Any, Fixed | Sized]] = {
    bool: Fixed("bool", "?"),
    str: STRING,
    bytes: Sized("bytes"),
    UUID: Fixed("uuid", "16s", _uuid_bytes, _uuid),
    ErrorCode: Fixed("error_code", "h", None, error_of),
}
#: The types that have one value for None.
OR_NONE: Final[dict[str, Fixed]] = {
    "uuid": Fixed("uuid", "16s", _uuid_bytes, _uuid_or_none),
    "datetime_i64": Fixed("datetime_i64", "q", _moment_milliseconds, _moment_or_none),
}
