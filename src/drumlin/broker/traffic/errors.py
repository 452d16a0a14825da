"""The error codes in a response, wherever it has them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from drumlin.wire.schema.declaration import fields_of
from drumlin.wire.schema.types import Array, Fixed, Struct


def errors_in(message: Any) -> Iterator[int]:
    """All codes but that of success."""
    cls: Any = type(message)
    codes, structs = _places(cls)
    for name in codes:
        code = getattr(message, name)
        if code:
            yield int(code)
    for name, is_array in structs:
        inner = getattr(message, name)
        if is_array:
            for each in inner if type(inner) is tuple else ():  # else it is encoded
                yield from errors_in(each)
        elif inner is not None:
            yield from errors_in(inner)


@cache
def _places(cls: Any) -> tuple[tuple[str, ...], tuple[tuple[str, bool], ...]]:
    """The fields of a class that are codes; those that may have codes in them, and whether each is
    an array."""
    codes: list[str] = []
    structs: list[tuple[str, bool]] = []
    for field in fields_of(cls, 0):
        kind, is_array = field.type, isinstance(field.type, Array)
        if isinstance(kind, Array):
            kind = kind.of
        if isinstance(kind, Fixed) and kind.name == "error_code" and not is_array:
            codes.append(field.name)
        elif isinstance(kind, Struct) and any(_places(kind.of)):
            structs.append((field.name, is_array))
    return tuple(codes), tuple(structs)
