"""The error codes in a response, wherever it has them.

This runs for every response, nearly all of which have none. So each class has a function of its
own, whose source is written when it is first used: loops over what may have codes, and no more.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, TypeAlias

from drumlin.wire.schema.declaration import fields_of
from drumlin.wire.schema.source import Source
from drumlin.wire.schema.types import Array, Fixed, Struct

#: Calls its second argument with each code.
_Find: TypeAlias = Callable[[Any, Callable[[int], None]], None]


def errors_in(message: Any) -> list[int]:
    """All codes but that of success."""
    found: list[int] = []
    cls: Any = type(message)
    _finder(cls)(message, found.append)
    return found


@cache
def _finder(cls: Any) -> _Find:
    source = Source()
    source.line("pass")
    _write(cls, "o", source)
    find: _Find = source.function("find(o, found)", f"error codes of {cls.__name__}")
    return find


def _write(cls: Any, value: str, source: Source) -> None:
    """Write what finds the codes of `value`, an expression that has an instance of the class."""
    codes, arrays = _places(cls)
    for name in codes:
        with source.block(f"if {value}.{name}:"):
            source.line(f"found(int({value}.{name}))")
    for name, inner in arrays:
        local = f"{value}_{name}"
        source.line(f"{local} = {value}.{name}")
        with (
            source.block(f"if type({local}) is tuple:"),  # else it is encoded
            source.block(f"for {local}_each in {local}:"),
        ):
            _write(inner, f"{local}_each", source)


@cache
def _places(cls: Any) -> tuple[tuple[str, ...], tuple[tuple[str, Any], ...]]:
    """The fields of a class that are codes, and the arrays of what may have codes, with its class.

    No response has a code in a structure that is not in an array.
    """
    codes: list[str] = []
    arrays: list[tuple[str, Any]] = []
    for field in fields_of(cls, 0):
        if isinstance(field.type, Fixed) and field.type.name == "error_code":
            codes.append(field.name)
        elif (
            isinstance(field.type, Array)
            and isinstance(field.type.of, Struct)
            and any(_places(field.type.of.of))
        ):
            arrays.append((field.name, field.type.of.of))
    return tuple(codes), tuple(arrays)
