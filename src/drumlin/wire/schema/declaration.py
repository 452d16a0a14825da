"""The declaration of messages: a class with annotated fields, one for all versions of a message.

    @message
    class MetadataResponseTopic:
        error_code: ErrorCode
        name: Annotated[str | None, NullFrom(12)]
        topic_id: Annotated[UUID | None, Versions(10)] = None
        is_internal: Annotated[bool, Versions(1)] = False
        partitions: tuple[MetadataResponsePartition, ...]

Fields are in the order of their bytes; tagged fields come last wherever they stand. A field that
some versions lack, or that has a tag, has a default. Any dataclass or named tuple is a declaration,
so the coordinators' own classes declare their records. The protocol's messages are made by the
decorator `message`, as their instances are created faster.
"""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Sequence
from typing import (
    Annotated,
    Any,
    ClassVar,
    Final,
    NamedTuple,
    Protocol,
    TypeVar,
    dataclass_transform,
)

from drumlin.wire.schema.types import OR_NONE, PLAIN, Array, Fixed, Sized, Struct, Type

T = TypeVar("T")

_NEWEST: Final = 2**15 - 1
NEVER: Final = 2**15
_UNSET: Final = object()
_MISSING: Final = dataclasses.MISSING
#: `dataclass` would make a text of the signature, which takes as long as all else.
_DOCUMENTED: Final = "A message of the protocol, or a part of one."


class Versions(NamedTuple):
    """The versions that have the field.

    otherwise: its value in other versions, if the class has no default; None for a nullable field.
    """

    first: int
    last: int = _NEWEST
    otherwise: Any = None


class NullFrom(NamedTuple):
    """The first version in which the field may be null; without this, `| None` allows it in all.

    `NullFrom(NEVER)`: the field is None in versions that lack it, and never null in others.
    """

    first: int


class Tag(NamedTuple):
    """The tag of a tagged field (KIP-482), which is written if it differs from its default."""

    number: int
    is_always_written: bool = False


class Field(NamedTuple):
    """A field in one version; `is_there`: whether that version has the field."""

    name: str
    type: Type
    is_there: bool
    is_nullable: bool
    is_needed: bool  # the class has no default for the field
    default: Any
    tag: int | None
    is_always_written: bool

    @property
    def is_nullable_struct(self) -> bool:
        return self.is_nullable and isinstance(self.type, Struct)


class _Declared(NamedTuple):
    """A field as it is declared, for all versions."""

    name: str
    type: Type
    is_optional: bool
    is_needed: bool
    versions: Versions
    null_from: int
    tag: Tag | None
    default: Any


class Message(Protocol):
    """An instance of a class that `message` made."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


@dataclass_transform(frozen_default=True, kw_only_default=True)
def message(cls: type[T]) -> type[T]:
    """Make a class with slots, created with keyword arguments.

    For type checkers its instances are immutable. Nothing enforces that at run time: it would cost
    as much as reading the message. `__init__` is compiled for the first instance, as most programs
    import hundreds of these classes and make instances of a few.
    """
    cls.__doc__ = cls.__doc__ or _DOCUMENTED
    made: Any = dataclasses.dataclass(init=False, slots=True, eq=False, repr=False)(cls)
    made.__init__ = _first_init
    made.__eq__ = _is_equal
    made.__repr__ = _text
    return typing.cast("type[T]", made)


def _first_init(self: Any, **values: Any) -> None:
    cls = type(self)
    cls.__init__ = _compiled_init(cls)
    cls.__init__(self, **values)


def _compiled_init(cls: Any) -> Any:
    """A function that takes the fields by their names."""
    fields = dataclasses.fields(cls)
    given = {each.name: each.default for each in fields if each.default is not _MISSING}
    parameters = (f"{each.name}=given[{each.name!r}]" for each in fields if each.name in given)
    needed = (each.name for each in fields if each.name not in given)
    head = ", ".join(("self", "*", *needed, *parameters)) if fields else "self"
    body = "; ".join(f"self.{each.name} = {each.name}" for each in fields) or "pass"
    made: dict[str, Any] = {"given": given}
    exec(f"def __init__({head}):\n {body}", made)  # noqa: S102  names of declared fields
    init = made["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    return init


def is_message(cls: Any) -> bool:
    """Whether `message` made the class: its instances can be created empty, and filled later."""
    return bool(cls.__eq__ is _is_equal)


def _is_equal(self: Any, other: object) -> bool:
    return type(self) is type(other) and _values(self) == _values(other)


def _text(self: Any) -> str:
    values = zip(self.__slots__, _values(self), strict=True)
    said = (f"{name}={value!r}" for name, value in values if value is not _UNSET)
    return f"{type(self).__name__}({', '.join(said)})"


def _values(self: Any) -> list[Any]:
    return [getattr(self, name, _UNSET) for name in self.__slots__]


@functools.cache
def fields_of(cls: Any, version: int) -> tuple[Field, ...]:
    """All fields of a class, in their order."""
    return tuple(
        Field(
            each.name,
            each.type,
            each.versions.first <= version <= each.versions.last,
            each.is_optional and version >= each.null_from,
            each.is_needed,
            each.default,
            None if each.tag is None else each.tag.number,
            each.tag is not None and each.tag.is_always_written,
        )
        for each in _declared(cls)
    )


@functools.cache
def _declared(cls: Any) -> tuple[_Declared, ...]:
    hints = typing.get_type_hints(cls, include_extras=True)
    defaults = _defaults(cls)
    return tuple(_read(name, hints[name], default) for name, default in defaults.items())


def _defaults(cls: Any) -> dict[str, Any]:
    """The defaults of a class's fields, by name; `MISSING` without a default."""
    if issubclass(cls, tuple):
        given: dict[str, Any] = cls._field_defaults
        return {name: given.get(name, dataclasses.MISSING) for name in cls._fields}
    return {each.name: each.default for each in dataclasses.fields(cls)}


def _read(name: str, hint: Any, default: Any) -> _Declared:
    markers: list[Any] = []
    type_, is_optional = _type(hint, markers)
    versions = next((each for each in markers if isinstance(each, Versions)), Versions(0))
    null_from = next((each.first for each in markers if isinstance(each, NullFrom)), 0)
    tag = next((each for each in markers if isinstance(each, Tag)), None)
    is_needed = default is dataclasses.MISSING
    if is_needed and (is_optional or versions.otherwise is not None):
        default = versions.otherwise
    may_be_missing = tag is not None or versions != Versions(0)
    assert default is not dataclasses.MISSING or not may_be_missing, f"{name} has no default"
    return _Declared(name, type_, is_optional, is_needed, versions, null_from, tag, default)


def _type(hint: Any, markers: list[Any]) -> tuple[Type, bool]:
    """The type that a hint stands for, and whether it may be null; adds the hint's markers."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        found = None
        for each in hint.__metadata__:
            if isinstance(each, Fixed | Sized):
                found = each
            else:
                markers.append(each)
        return _type(hint.__origin__, markers) if found is None else (found, False)
    if origin in (types.UnionType, typing.Union):
        (inner,) = (each for each in arguments if each is not type(None))
        type_, _ = _type(inner, markers)
        if isinstance(type_, Fixed):  # one value of the type stands for null
            return OR_NONE[type_.name], False
        return type_, True
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return Array(_type(arguments[0], markers)[0]), False
    if hint in PLAIN:
        return PLAIN[hint], False
    return Struct(hint), False
