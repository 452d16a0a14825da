"""Plain Python data <-> kio's messages, so that a test case reads like the request it sends.

`build` fills in what a case leaves out with zero values, and drops what a version does not
have; a name that no version of the API has is a mistake in the case and raises.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import types
import typing
import uuid
from enum import Enum
from typing import Any

from drumlin.wire.messages import request_shape, schema_versions

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MILLISECOND = datetime.timedelta(milliseconds=1)
_ZERO_OF_TYPE: dict[str, Any] = {
    "string": "",
    "bytes": b"",
    "bool": False,
    "uuid": None,
    "records": None,
    "timedelta_i32": datetime.timedelta(0),
    "timedelta_i64": datetime.timedelta(0),
}


def build(api: str, version: int, fields: dict[str, Any]) -> Any:
    """A request of one version from nested dicts and lists; `*_ms` fields from integers."""
    name = "".join(part.capitalize() for part in api.split("_")) + "Request"
    return _entity(getattr(request_shape(api, version)._module, name), fields, _names(api))


def render(message: Any) -> Any:
    """A message as nested dicts and lists of plain values; times in milliseconds."""
    if dataclasses.is_dataclass(message):
        return {
            field.name: render(getattr(message, field.name))
            for field in dataclasses.fields(message)
        }
    if isinstance(message, tuple | list):
        return [render(each) for each in message]
    if isinstance(message, datetime.timedelta):
        return message // _MILLISECOND
    if isinstance(message, datetime.datetime):
        return (message - _EPOCH) // _MILLISECOND
    if isinstance(message, Enum):
        return message.name
    if isinstance(message, bool | bytes | uuid.UUID) or message is None:
        return message
    if isinstance(message, memoryview | bytearray):
        return bytes(message)
    return int(message) if isinstance(message, int) else str(message)


def _entity(entity: Any, given: dict[str, Any], known: frozenset[str]) -> Any:
    unknown = given.keys() - known
    if unknown:
        raise AssertionError(f"no version has the fields {sorted(unknown)}")
    values = {}
    for field, hint in fields_of(entity):
        if field.name in given:
            values[field.name] = _value(field, hint, given[field.name], known)
        elif field.default is dataclasses.MISSING:
            values[field.name] = _zero(field, hint)
    return entity(**values)


def _value(field: dataclasses.Field[Any], hint: Any, given: Any, known: frozenset[str]) -> Any:
    if given is None:
        return None
    kind = field.metadata.get("kafka_type", "")
    if isinstance(given, list | tuple):
        item = array_item(hint)
        if dataclasses.is_dataclass(item):
            return tuple(_entity(item, each, known) for each in given)
        return tuple(given)
    if isinstance(given, dict):
        return _entity(array_item(hint), given, known)
    if kind.startswith("timedelta"):
        return datetime.timedelta(milliseconds=given)
    return given


def _zero(field: dataclasses.Field[Any], hint: Any) -> Any:
    if is_optional(hint):
        return None
    if is_array(hint):
        return ()
    if dataclasses.is_dataclass(hint):
        return _entity(hint, {}, frozenset())
    return _ZERO_OF_TYPE.get(field.metadata.get("kafka_type", ""), 0)


def is_optional(hint: Any) -> bool:
    return isinstance(hint, types.UnionType) and type(None) in typing.get_args(hint)


def without_none(hint: Any) -> Any:
    """The type itself of what may be null."""
    if not is_optional(hint):
        return hint
    return next(each for each in typing.get_args(hint) if each is not type(None))


def is_array(hint: Any) -> bool:
    return typing.get_origin(hint) is tuple


def array_item(hint: Any) -> Any:
    """What an array holds; for anything else the type itself. `| None` is looked through."""
    hint = without_none(hint)
    return typing.get_args(hint)[0] if is_array(hint) else hint


@functools.cache
def fields_of(entity: Any) -> list[tuple[dataclasses.Field[Any], Any]]:
    """The fields of a message or structure with their types."""
    hints = typing.get_type_hints(entity)
    return [(field, hints[field.name]) for field in dataclasses.fields(entity)]


@functools.cache
def _names(api: str) -> frozenset[str]:
    """Every field name that some version of the API's request has, at any depth."""
    low, high = schema_versions(api)
    return frozenset(
        field.name
        for version in range(low, high + 1)
        for entity in vars(request_shape(api, version)._module).values()
        if dataclasses.is_dataclass(entity)
        for field in dataclasses.fields(entity)
    )
