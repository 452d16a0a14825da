"""Plain Python data <-> messages, so that a test case reads like the request it sends.

`build` fills in what a case leaves out with zero values, and drops what a version does not
have; a name that no version of the API has is a mistake in the case and raises.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import importlib
import uuid
from enum import Enum
from typing import Any

from drumlin.wire.messages import schema_versions
from drumlin.wire.schema.declaration import Field, fields_of
from drumlin.wire.schema.types import Array, Struct, Type, type_name

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


class Shape:
    """A factory of the structures of one version of a message, by the names of their classes.

    Fields that only other versions have may be given as well; they are not written.
    """

    __slots__ = ("_classes", "version")

    def __init__(self, api_name: str, version: int, kind: str) -> None:
        self._classes = _classes(payload_class(api_name, kind), version)
        self.version = version

    def __call__(self, class_name: str, /, **fields: Any) -> Any:
        """An instance of the class `class_name`.

        Raises:
            AttributeError: this version has no such class; see `has`.
            TypeError: a field is missing, or no version of the message has it.
        """
        cls = self._classes.get(class_name)
        if cls is None:
            raise AttributeError(f"version {self.version} has no {class_name}")
        return cls(**fields)

    def has(self, class_name: str) -> bool:
        """Whether this version has the class at all."""
        return class_name in self._classes

    def knows(self, class_name: str, field: str) -> bool:
        """Whether this version's class has the field."""
        if not self.has(class_name):
            return False
        fields = fields_of(self._classes[class_name], self.version)
        return any(each.name == field and each.is_there for each in fields)


def _classes(payload: Any, version: int) -> dict[str, Any]:
    """The classes of one version of a message, by name."""
    found = {payload.__name__: payload}
    for field in fields_of(payload, version):
        type_ = field.type.of if isinstance(field.type, Array) else field.type
        if field.is_there and isinstance(type_, Struct):
            found |= _classes(type_.of, version)
    return found


@functools.cache
def request_shape(api: str, version: int) -> Shape:
    """A factory of requests of one version, by the names of their classes."""
    return Shape(api, version, "request")


def payload_class(api: str, kind: str) -> Any:
    """The class of an API's requests or responses (`kind`)."""
    camel = "".join(part.capitalize() for part in api.split("_"))
    return getattr(
        importlib.import_module(f"drumlin.wire.protocol.{api}"), camel + kind.capitalize()
    )


@functools.cache
def response_shape(api: str, version: int) -> Shape:
    """A factory of responses of one version, by the names of their classes."""
    return Shape(api, version, "response")


def build(api: str, version: int, fields: dict[str, Any]) -> Any:
    """A request of one version from nested dicts and lists; `*_ms` fields from integers."""
    return _entity(payload_class(api, "request"), version, fields, _names(api))


def trimmed(message: Any, version: int) -> Any:
    """The message without the fields that its version does not have; it is changed in place."""
    for field in fields_of(type(message), version):
        if not field.is_there:
            delattr(message, field.name)
            continue
        value = getattr(message, field.name)
        for each in value if isinstance(value, tuple) else (value,):
            if dataclasses.is_dataclass(each):
                trimmed(each, version)
    return message


def render(message: Any) -> Any:
    """A message as nested dicts and lists of plain values; times in milliseconds."""
    if dataclasses.is_dataclass(message):
        return {
            field.name: render(getattr(message, field.name))
            for field in dataclasses.fields(message)
            if hasattr(message, field.name)
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


def _entity(cls: Any, version: int, given: dict[str, Any], known: frozenset[str]) -> Any:
    unknown = given.keys() - known
    if unknown:
        raise AssertionError(f"no version has the fields {sorted(unknown)}")
    values = {}
    for field in fields_there(cls, version):
        if field.name in given:
            values[field.name] = _value(field, version, given[field.name], known)
        elif field.is_needed or (field.default is None and not field.is_nullable):
            values[field.name] = _zero(field, version)
    return cls(**values)


def _value(field: Field, version: int, given: Any, known: frozenset[str]) -> Any:
    if given is None:
        return None
    item = item_of(field.type)
    if isinstance(given, list | tuple):
        if isinstance(item, Struct):
            return tuple(_entity(item.of, version, each, known) for each in given)
        return tuple(given)
    if isinstance(given, dict):
        assert isinstance(item, Struct)
        return _entity(item.of, version, given, known)
    if type_name(field.type).startswith("timedelta"):
        return datetime.timedelta(milliseconds=given)
    return given


def _zero(field: Field, version: int) -> Any:
    if field.is_nullable:
        return None
    if isinstance(field.type, Array):
        return ()
    if isinstance(field.type, Struct):
        return _entity(field.type.of, version, {}, frozenset())
    return _ZERO_OF_TYPE.get(type_name(field.type), 0)


def fields_there(cls: Any, version: int) -> list[Field]:
    """The fields of a message or structure that a version has."""
    return [each for each in fields_of(cls, version) if each.is_there]


def item_of(type_: Type) -> Type:
    """What an array holds; for anything else the type itself."""
    return type_.of if isinstance(type_, Array) else type_


@functools.cache
def _names(api: str) -> frozenset[str]:
    """Every field name that some version of the API's request has, at any depth."""
    low, high = schema_versions(api)
    cls = payload_class(api, "request")
    return frozenset(name for version in range(low, high + 1) for name in _names_in(cls, version))


def _names_in(cls: Any, version: int) -> set[str]:
    names: set[str] = set()
    for field in fields_there(cls, version):
        names.add(field.name)
        item = item_of(field.type)
        if isinstance(item, Struct):
            names |= _names_in(item.of, version)
    return names
