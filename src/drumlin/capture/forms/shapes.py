"""The shape of values in records with a schema: a primitive type, and its conversion. Pure.

A shape is independent of names in a schema and of an encoding: `encoder` and `converter` write its
values in Avro's binary encoding or as JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from json.encoder import encode_basestring
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from drumlin.capture.forms import binary
from drumlin.capture.forms.binary import Encode
from drumlin.capture.forms.numbers import big_endian, scale_of, unscaled
from drumlin.capture.values.arrays import Elements, parse_array
from drumlin.capture.values.plain import (
    BadText,
    Convert,
    UnknownSymbol,
    base64_text,
    boolean,
    floating,
    integer,
)

Read = Callable[[str], Any]
#: A decimal with its scale in each value: a record of `scale` and `value`.
VARIABLE: Final = "variable"
ARRAY: Final = "array"
NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class Shape(NamedTuple):
    """A primitive of Avro, `array` or `variable`, and the function that reads it from text."""

    primitive: str
    read: Read
    #: Further attributes in the schema, besides the primitive.
    attributes: Mapping[str, Any] = NOTHING
    items: Shape | None = None
    delimiter: str = ","


def as_it_is(text: str) -> str:
    return text


def truth(text: str) -> bool:
    return boolean(text) == "true"


def whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise BadText(f"{text[:40]!r} is no integer") from None


def real(text: str) -> float:
    return float(text)


def scaled(scale: int) -> Read:
    """A reader of decimals as bytes of the unscaled number, as in Avro and Connect."""

    def read(text: str) -> bytes:
        return big_endian(unscaled(text, scale))

    return read


def symbol(symbols: Sequence[str]) -> Read:
    """A reader of an enum's symbols as their indexes."""
    places = {each: place for place, each in enumerate(symbols)}

    def read(text: str) -> int:
        if text not in places:
            raise UnknownSymbol(f"{text[:100]!r} is not one of {', '.join(symbols)}")
        return places[text]

    return read


def elements_of(text: str, delimiter: str) -> list[str | None]:
    """The elements of an array of one dimension; its lower bound is lost.

    Raises:
        BadText: it has more dimensions.
    """
    if text.startswith("["):
        text = text.partition("=")[2]
    found: Elements = parse_array(text, delimiter)
    flat = [each for each in found if not isinstance(each, list)]
    if len(flat) < len(found):
        raise BadText("an array of more than one dimension, which the schema has no type for")
    return flat


def encoder(shape: Shape) -> Encode:
    """A function that encodes the text of values in Avro's binary encoding."""
    read = shape.read
    if shape.primitive == VARIABLE:

        def variable(text: str) -> bytes:
            scale = scale_of(text)
            return binary.long(scale) + binary.data(big_endian(unscaled(text, scale)))

        return variable
    if shape.items is not None:
        of_item, delimiter = encoder(shape.items), shape.delimiter

        def array(text: str) -> bytes:
            return binary.array(
                [
                    binary.NULL if each is None else binary.PRESENT + of_item(each)
                    for each in elements_of(text, delimiter)
                ]
            )

        return array
    write = binary.WRITERS[shape.primitive]
    if read is as_it_is:
        return write
    return lambda text: write(read(text))


def converter(shape: Shape) -> Convert:
    """A function that converts the text of values to JSON, as Connect's converter does."""
    read = shape.read
    if shape.primitive == VARIABLE:

        def variable(text: str) -> str:
            scale = scale_of(text)
            value = base64_text(big_endian(unscaled(text, scale)))
            return f'{{"scale":{scale},"value":{value}}}'

        return variable
    if shape.items is not None:
        of_item, delimiter = converter(shape.items), shape.delimiter

        def array(text: str) -> str:
            found = elements_of(text, delimiter)
            items = ["null" if each is None else of_item(each) for each in found]
            return "[" + ",".join(items) + "]"

        return array
    if read in _AS_JSON:
        return _AS_JSON[read]
    write = _JSON_WRITERS[shape.primitive]
    if read is as_it_is:
        return write
    return lambda text: write(read(text))


def fits(shape: Shape, value: str) -> bool:
    """Whether a JSON value can be one of this shape."""
    return value == "null" or value[:1] in _BEGINNINGS.get(shape.primitive, _NUMBER)


_NUMBER: Final = '-0123456789"'  # also "NaN"
_BEGINNINGS: Final = {
    "string": '"',
    "bytes": '"',
    "boolean": "tf",
    VARIABLE: "{",
    ARRAY: "[",
}
#: Those whose text is JSON already, or nearly.
_AS_JSON: Final[dict[Read, Convert]] = {truth: boolean, whole: integer, real: floating}
_JSON_WRITERS: Final[dict[str, Callable[[Any], str]]] = {
    "boolean": lambda value: "true" if value else "false",
    "int": str,
    "long": str,
    "bytes": base64_text,
    "string": encode_basestring,
}
