"""Messages with arbitrary content, as kio has them: the judge of what is declared here."""

from __future__ import annotations

import io
import random
import typing
from collections.abc import Callable, Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from importlib import import_module
from types import UnionType
from typing import Any, NamedTuple
from uuid import UUID

from kio.schema import errors as kio_errors
from kio.schema.index import schema_name_map
from kio.serial import entity_writer

from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.schema.declaration import fields_of
from drumlin.wire.schema.decoder import decoder
from drumlin.wire.schema.encoder import encode
from rig.data.messages import payload_class

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
            return rng.choice(list(kio_errors.ErrorCode))
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


class Case(NamedTuple):
    """A message of one version, as it is declared here and as kio has it."""

    version: int
    kind: str
    cls: Any
    entity: Any

    @property
    def flexible(self) -> bool:
        return bool(self.entity.__flexible__)

    def arbitrary(self, rng: random.Random, make: MakeValue = arbitrary_value) -> tuple[Any, bytes]:
        """A message of kio's, and its bytes as kio writes them."""
        message = arbitrary_message(self.entity, rng, make)
        written = io.BytesIO()
        entity_writer(self.entity)(written, message)
        return message, written.getvalue()

    def decode(self, data: Any, position: int = 0) -> tuple[Any, int]:
        read, end = decoder(self.cls, self.version, flexible=self.flexible)(data, position)
        return read, end

    def encode(self, message: Any) -> bytes:
        return encode(message, self.version, flexible=self.flexible)


def cases(api_name: str) -> Iterator[Case]:
    """All messages of an API, in all versions."""
    camel = "".join(part.capitalize() for part in api_name.split("_"))
    for version in schema_name_map[api_name]:
        for kind in ("request", "response"):
            module = import_module(f"kio.schema.{api_name}.v{version}.{kind}")
            entity = getattr(module, camel + kind.capitalize())
            yield Case(version, kind, payload_class(api_name, kind), entity)


def assert_same(ours: Any, theirs: Any, version: int) -> None:
    """Each field of kio's message is in ours; what only other versions have is at its default."""
    if isinstance(theirs, tuple):
        assert isinstance(ours, tuple)
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            assert_same(one, other, version)
    elif is_dataclass(theirs):
        declared = fields_of(type(ours), version)
        assert [each.name for each in declared if each.is_there] == [f.name for f in fields(theirs)]
        for each in declared:
            if each.is_there:
                assert_same(getattr(ours, each.name), getattr(theirs, each.name), version)
            else:
                assert getattr(ours, each.name) == each.default
    elif isinstance(theirs, kio_errors.ErrorCode):
        assert isinstance(ours, ErrorCode)
        assert ours == theirs
    else:
        assert ours == theirs
        assert isinstance(theirs, type(ours))
