"""Messages with arbitrary content, of every class that the schemas have."""

from __future__ import annotations

import random
import typing
from collections.abc import Callable, Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from importlib import import_module
from types import UnionType
from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.schema.index import schema_name_map

_INTEGERS = {"int8": 7, "int16": 15, "int32": 31, "int64": 63, "uint16": 15, "uint32": 31}


#: Makes a value: its kafka_type, the name of its field, what decides.
MakeValue = Callable[[str, str, random.Random], Any]


def arbitrary(annotation: Any, field: Field[Any], rng: random.Random, make: MakeValue) -> Any:
    if isinstance(annotation, UnionType):
        if rng.random() < 0.3:
            return None
        annotation = next(a for a in typing.get_args(annotation) if a is not type(None))
    if typing.get_origin(annotation) is tuple:
        inner = typing.get_args(annotation)[0]
        return tuple(arbitrary(inner, field, rng, make) for _ in range(rng.randrange(3)))
    if is_dataclass(annotation):
        return arbitrary_message(annotation, rng, make)
    return make(field.metadata.get("kafka_type", ""), field.name, rng)


def arbitrary_value(kafka_type: str, name: str, rng: random.Random) -> Any:
    if kafka_type in _INTEGERS:
        bits = _INTEGERS[kafka_type]
        return rng.choice([0, 1, -1 if "u" not in kafka_type else 2, rng.getrandbits(bits)])
    match kafka_type:
        case "string":
            return rng.choice(["", "a", "топик", "x" * 200])
        case "bytes" | "records":
            return rng.choice([b"", b"abc", bytes(5000)])
        case "bool":
            return rng.random() < 0.5
        case "float64":
            return rng.random()
        case "uuid":
            return UUID(int=rng.getrandbits(128) | 1)
        case "error_code":
            return rng.choice(list(ErrorCode))
        case "timedelta_i32" | "timedelta_i64":
            return timedelta(milliseconds=rng.randrange(2**31))
        case "datetime_i64":
            return datetime.fromtimestamp(rng.randrange(2**31), UTC)
    raise AssertionError(kafka_type)


def arbitrary_message(entity: Any, rng: random.Random, make: MakeValue = arbitrary_value) -> Any:
    """An instance of `entity`; `make` makes its values."""
    return entity(
        **{
            f.name: arbitrary(f.type, f, rng, make)
            for f in fields(entity)
            if f.default is MISSING or rng.random() < 0.7
        }
    )


def message_classes(api_name: str) -> Iterator[tuple[int, str, Any]]:
    """Version, kind (`request` or `response`) and class of all messages of an API."""
    camel = "".join(part.capitalize() for part in api_name.split("_"))
    for version in schema_name_map[api_name]:
        for kind in ("request", "response"):
            module = import_module(f"kio.schema.{api_name}.v{version}.{kind}")
            yield version, kind, getattr(module, camel + kind.capitalize())
