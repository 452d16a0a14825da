"""What a value of each type becomes in JSON, from its text.

The text is what PostgreSQL writes with the settings of `SESSION`. Numbers whose type has a fixed
size are JSON numbers; what JSON's numbers, or readers of them, cannot hold exactly is a string:
`numeric`, NaN and the infinities. A document of type `json` is a string, too, for the document
`null` is not the absence of one.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping
from json.encoder import encode_basestring
from typing import Final, NamedTuple

from drumlin.capture.values.arrays import Elements, parse_array

#: What a session must be set to, so that texts are what is expected here, whatever the database,
#: the role or the server would have by default.
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

#: From a value's text to JSON.
Convert = Callable[[str], str]


class TypeInfo(NamedTuple):
    """A type as the catalog has it."""

    oid: int
    name: str
    base_oid: int  # of a domain; 0: it is none
    element_oid: int  # of an array; 0: it is none
    delimiter: str = ","


class BadText(ValueError):
    """A value that is not written as values of its type are."""


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
    """`infinity`, and years before Christ as PostgreSQL writes them: ISO 8601 has no place."""
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


class Types:
    """The types of a database: which converter a column of each has."""

    def __init__(self, known: Iterable[TypeInfo] = ()) -> None:
        self._known = {each.oid: each for each in known}
        self._converters: dict[int, Convert] = {}

    def __contains__(self, oid: int) -> bool:
        return oid in self._known

    def add(self, found: Iterable[TypeInfo]) -> None:
        """Learn types, or how they are now."""
        self._known.update({each.oid: each for each in found})
        self._converters.clear()

    def converter(self, oid: int) -> Convert:
        """What has no meaning here is a string of the text: uuid, enums, ranges, intervals, ..."""
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
        if text.startswith("["):  # an array that does not begin at 1 keeps its bounds so
            return encode_basestring(text)
        return of_elements(parse_array(text, delimiter))

    return of_array
