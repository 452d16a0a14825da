"""Converts the text of values to JSON, by type.

The text is as PostgreSQL writes it with the settings in `SESSION`. Numbers of a fixed size become
JSON numbers. Numbers that JSON cannot hold exactly become strings: `numeric`, NaN and the
infinities. A `json` document becomes a string, too, as the document `null` differs from SQL's NULL.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping
from json.encoder import encode_basestring
from typing import Final, NamedTuple

from drumlin.capture.values.arrays import Elements, parse_array

#: The settings of each session, so that texts have the expected format regardless of the defaults
#: of database, role or server.
SESSION: Final[Mapping[str, str]] = {
    "bytea_output": "hex",
    "client_encoding": "UTF8",
    "datestyle": "ISO",
    "extra_float_digits": "3",
    "intervalstyle": "iso_8601",
    "lc_monetary": "C",
    "timezone": "UTC",
    "xmlbinary": "base64",
}

#: Converts a value's text to JSON.
Convert = Callable[[str], str]


class TypeInfo(NamedTuple):
    """A type in the catalog."""

    oid: int
    name: str
    base_oid: int  # of a domain; 0: not a domain
    element_oid: int  # of an array; 0: not an array
    delimiter: str = ","


class BadText(ValueError):
    """The text is not a value of its type."""


def _bool(text: str) -> str:
    if text == "t":
        return "true"
    if text == "f":
        return "false"
    raise BadText(f"{text!r} is no boolean")


def _integer(text: str) -> str:
    if not text.isascii() or not text.removeprefix("-").isdecimal():
        raise BadText(f"{text[:40]!r} is no integer")
    return text


def _float(text: str) -> str:
    if text in ("NaN", "Infinity", "-Infinity"):
        return f'"{text}"'
    float(text)
    return text


def _bytea(text: str) -> str:
    if not text.startswith("\\x"):
        raise BadText("a bytea that is not written as hex")
    return f'"{base64.b64encode(bytes.fromhex(text[2:])).decode()}"'


def _timestamp(text: str) -> str:
    return encode_basestring(_iso(text))


def _timestamp_with_zone(text: str) -> str:
    moment = _iso(text)
    if moment.endswith("+00"):
        moment = f"{moment[:-3]}Z"
    elif moment.endswith("+00 BC"):
        moment = f"{moment[:-6]}Z BC"
    return encode_basestring(moment)


def _iso(text: str) -> str:
    """A timestamp in ISO 8601; `infinity` and years "BC", which it lacks, stay as they are."""
    return text.replace(" ", "T", 1)


_BUILT_IN: Final[dict[int, Convert]] = {
    16: _bool,
    17: _bytea,
    20: _integer,
    21: _integer,
    23: _integer,
    26: _integer,
    700: _float,
    701: _float,
    1114: _timestamp,
    1184: _timestamp_with_zone,
}


_INTEGERS: Final = frozenset({20, 21, 23, 26})
_TEXTS: Final = frozenset({25, 1043})


def key_kind(oid: int, modifier: int) -> str:
    """The kind of a key column: columns of the same kind write equal values as equal text.

    If the kind of a key column changes, later changes no longer match the keys in the topic.
    """
    if oid in _INTEGERS:
        return "integer"
    return "text" if oid in _TEXTS else f"{oid}:{modifier}"


class Types:
    """The types of a database and their converters."""

    def __init__(self, known: Iterable[TypeInfo] = ()) -> None:
        self._known = {each.oid: each for each in known}
        self._converters: dict[int, Convert] = {}

    def __contains__(self, oid: int) -> bool:
        return oid in self._known

    def add(self, found: Iterable[TypeInfo]) -> None:
        """Add types, or replace their definitions."""
        self._known.update({each.oid: each for each in found})
        self._converters.clear()

    def converter(self, oid: int) -> Convert:
        """The type's converter. By default (uuid, enums, ranges, ...) the text becomes a string."""
        found = self._converters.get(oid)
        if found is None:
            found = self._converters[oid] = self._make(oid, 0)
        return found

    def _make(self, oid: int, depth: int) -> Convert:
        if oid in _BUILT_IN:
            return _BUILT_IN[oid]
        info = self._known.get(oid)
        if info is None or depth > 16:
            return encode_basestring
        if info.base_oid:
            return self._make(info.base_oid, depth + 1)
        if info.element_oid:
            return _array_converter(self._make(info.element_oid, depth + 1), info.delimiter)
        return encode_basestring


def _array_converter(convert: Convert, delimiter: str) -> Convert:
    def of_elements(elements: Elements) -> str:
        return "[" + ",".join([of_element(each) for each in elements]) + "]"

    def of_element(element: str | Elements | None) -> str:
        if element is None:
            return "null"
        return convert(element) if isinstance(element, str) else of_elements(element)

    def of_array(text: str) -> str:
        if text.startswith("["):  # the array does not begin at 1, so its text states the bounds
            return encode_basestring(text)
        return of_elements(parse_array(text, delimiter))

    return of_array
