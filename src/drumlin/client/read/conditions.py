"""Filters of records as a user types them: `key=a`, `value.amount >= 100`.

A condition compares one field with one value. It is data and nothing is evaluated: no condition can
run code, or take longer than a comparison.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

_CONDITION: Final = re.compile(r"\s*([^=!<>~\s]+)\s*(?:(!=|<=|>=|=|<|>|~)\s*(.*?)\s*)?", re.DOTALL)
_COMPARISONS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_NUMBERS: Final = ("partition", "offset")
_MISSING: Final = object()


@dataclass(frozen=True, slots=True)
class Condition:
    """One comparison of one field; without a comparison, whether the field exists."""

    field: str  # "key", "value", "header", "partition", "offset"
    path: tuple[str, ...]  # within a JSON value; for a header, its name
    comparison: str | None
    typed: str

    def is_true(self, row: Mapping[str, Any]) -> bool:
        """Whether it is true of a record."""
        found = self._found(row)
        if self.comparison is None:
            return bool(found)
        return any(self._compared(each) for each in found)

    def _found(self, row: Mapping[str, Any]) -> Sequence[Any]:
        """The values of the field; headers may have several of one name."""
        if self.field == "header":
            (name,) = self.path
            return [_text(each["value"]) for each in row["headers"] if each["key"] == name]
        value = row[self.field]
        if self.path:
            value = _within(value, self.path)
        elif self.field in ("key", "value"):
            value = _text(value)
        return [] if value is _MISSING else [value]

    def _compared(self, found: Any) -> bool:
        wanted = self._wanted(found)
        if self.comparison == "~":
            return isinstance(found, str) and self.typed in found
        if wanted is _MISSING:  # of another type
            return self.comparison == "!="
        if isinstance(found, bool) or not isinstance(found, str | int | float):
            return self.comparison in ("=", "!=") and (found == wanted) is (self.comparison == "=")
        return _COMPARISONS[str(self.comparison)](found, wanted)

    def _wanted(self, found: Any) -> Any:
        """What was typed, as the type of what was found; `_MISSING` if it is of another type."""
        if isinstance(found, str):
            return _unquoted(self.typed)
        try:
            typed = json.loads(self.typed)
        except ValueError:
            return _MISSING
        is_number = isinstance(found, int | float) and not isinstance(found, bool)
        if is_number and isinstance(typed, int | float) and not isinstance(typed, bool):
            return typed
        return typed if type(typed) is type(found) else _MISSING


def parse_conditions(typed: Sequence[str]) -> tuple[Condition, ...]:
    """Parse conditions as a user types them.

    Raises:
        ValueError: a text is not a condition.
    """
    return tuple(map(_parse, typed))


def _parse(text: str) -> Condition:
    found = _CONDITION.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not FIELD=VALUE, FIELD>VALUE or alike")
    name, comparison, typed = found.groups()
    field, _, rest = name.partition(".")
    path = (rest,) if field == "header" else tuple(rest.split(".")) if rest else ()
    is_known = (
        (field == "header" and rest)
        or (field == "value" and "" not in path)
        or (field in ("key", *_NUMBERS) and not path)
    )
    if not is_known or name.endswith("."):
        raise ValueError(
            f"there is no field {name!r} (there are key, value, value.NAME, header.NAME, "
            "partition, offset)"
        )
    if field in _NUMBERS and comparison is not None and not re.fullmatch(r"\d+", typed):
        raise ValueError(f"{name} is a number, not {typed!r}")
    return Condition(field, path, comparison, typed or "")


def _text(value: Any) -> Any:
    """A key, header or value as text, if it is bytes."""
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value


def _within(value: Any, path: Sequence[str]) -> Any:
    """The part of a JSON value; `_MISSING` if it has none there, or is not JSON."""
    if isinstance(value, bytes):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return _MISSING
    for name in path:
        if isinstance(value, dict) and name in value:
            value = value[name]
        elif isinstance(value, list) and name.isdecimal() and int(name) < len(value):
            value = value[int(name)]
        else:
            return _MISSING
    return value


def _unquoted(typed: str) -> Any:
    """The text; in quotes, what is between them. The word null is null, which is no text."""
    if typed[:1] == '"' and typed[-1:] == '"':
        try:
            return json.loads(typed)
        except ValueError:
            return typed
    return _MISSING if typed == "null" else typed
