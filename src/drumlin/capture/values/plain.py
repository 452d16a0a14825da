"""Converts the text of values to JSON, by kind: the form of plain JSON rows. Pure.

Numbers of a fixed size become JSON numbers. Numbers that JSON cannot hold exactly become strings:
decimals, NaN and the infinities. A `json` document becomes a string, too, as the document `null`
differs from SQL's NULL.
"""

from __future__ import annotations

from binascii import b2a_base64
from collections.abc import Callable
from json.encoder import encode_basestring
from typing import Final, TypeAlias

from drumlin.capture.values.arrays import Elements, parse_array
from drumlin.capture.values.kinds import Kind, Sort

#: Converts a value's text to JSON.
Convert: TypeAlias = Callable[[str], str]


class BadText(ValueError):
    """The text is not a value of its kind."""


class UnknownSymbol(BadText):
    """The text is not a known symbol of its enum: the symbol was added since."""


def json_converter(kind: Kind) -> Convert:
    """The converter of a kind; by default (uuid, enum, ...) the text becomes a string."""
    if kind.sort is Sort.ARRAY and kind.element is not None:
        return array_converter(json_converter(kind.element), kind.delimiter)
    return _CONVERTERS.get(kind.sort, encode_basestring)


def boolean(text: str) -> str:
    if text == "t":
        return "true"
    if text == "f":
        return "false"
    raise BadText(f"{text!r} is no boolean")


def integer(text: str) -> str:
    if not text.isascii() or not text.removeprefix("-").isdecimal():
        raise BadText(f"{text[:40]!r} is no integer")
    return text


def floating(text: str) -> str:
    if text in ("NaN", "Infinity", "-Infinity"):
        return f'"{text}"'
    float(text)
    return text


def bytes_of(text: str) -> bytes:
    if not text.startswith("\\x"):
        raise BadText("bytes that are not written as hex")
    return bytes.fromhex(text[2:])


def base64_text(data: bytes) -> str:
    return f'"{b2a_base64(data, newline=False).decode()}"'


def _binary(text: str) -> str:
    return base64_text(bytes_of(text))


def _timestamp(text: str) -> str:
    return encode_basestring(_iso(text))


def _timestamp_zoned(text: str) -> str:
    moment = _iso(text)
    if moment.endswith("+00"):
        moment = f"{moment[:-3]}Z"
    elif moment.endswith("+00 BC"):
        moment = f"{moment[:-6]}Z BC"
    return encode_basestring(moment)


def _iso(text: str) -> str:
    """A timestamp in ISO 8601; `infinity` and years "BC", which it lacks, stay as they are."""
    return text.replace(" ", "T", 1)


def array_converter(convert: Convert, delimiter: str) -> Convert:
    """The converter of arrays whose elements are converted by another."""

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


_CONVERTERS: Final[dict[Sort, Convert]] = {
    Sort.BOOLEAN: boolean,
    Sort.INT16: integer,
    Sort.INT32: integer,
    Sort.INT64: integer,
    Sort.UINT32: integer,
    Sort.UINT64: integer,
    Sort.FLOAT32: floating,
    Sort.FLOAT64: floating,
    Sort.BYTES: _binary,
    Sort.TIMESTAMP: _timestamp,
    Sort.TIMESTAMP_ZONED: _timestamp_zoned,
}
