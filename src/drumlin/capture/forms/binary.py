"""Avro's binary encoding of single values. Pure."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from drumlin.records.batch.varint import varint
from drumlin.wire.uvarint import uvarint

#: Encodes a value's text.
Encode: TypeAlias = Callable[[str], bytes]

#: The branches of a union of null and one type; also false and true.
NULL: Final = b"\0"
PRESENT: Final = b"\2"
_FALSE: Final = b"\0"
_TRUE: Final = b"\1"
_FLOAT: Final = struct.Struct("<f")
_DOUBLE: Final = struct.Struct("<d")
_END: Final = b"\0"


def long(number: int) -> bytes:
    """An int or a long."""
    return uvarint((number << 1) ^ (number >> 63))


def data(value: bytes) -> bytes:
    return varint(len(value)) + value


def text(value: str) -> bytes:
    encoded = value.encode()
    return varint(len(encoded)) + encoded


def boolean(value: bool) -> bytes:
    return _TRUE if value else _FALSE


def float32(number: float) -> bytes:
    return _FLOAT.pack(number)


def float64(number: float) -> bytes:
    return _DOUBLE.pack(number)


def array(items: Sequence[bytes]) -> bytes:
    return varint(len(items)) + b"".join(items) + _END if items else _END


#: The encoders by the name of a primitive type.
WRITERS: Final[dict[str, Callable[[Any], bytes]]] = {
    "boolean": boolean,
    "int": long,
    "long": long,
    "float": float32,
    "double": float64,
    "bytes": data,
    "string": text,
    "enum": long,
}
