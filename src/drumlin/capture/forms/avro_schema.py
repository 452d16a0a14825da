"""The Avro schema of a table's keys and rows, with Avro's logical types. Pure.

A column becomes a field of the type that holds all of its values; if Avro has none, a string.
Fields outside of the key may be null, so that columns can come and go.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from drumlin.capture.errors import CaptureError
from drumlin.capture.forms import numbers
from drumlin.capture.forms.shapes import ARRAY, Shape, as_it_is, real, scaled, symbol, truth, whole
from drumlin.capture.values.kinds import Column, Kind, Sort
from drumlin.capture.values.plain import bytes_of

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OTHERS: Final = re.compile(r"[^A-Za-z0-9_]")
#: Readers hold decimals in 128 bits.
_DIGITS_MAX: Final = 38
_TEXT: Final = Shape("string", as_it_is)
_INTEGERS: Final = frozenset({Sort.INT16, Sort.INT32, Sort.INT64, Sort.UINT32})
_SHAPES: Final = {
    Sort.BOOLEAN: Shape("boolean", truth),
    Sort.INT16: Shape("int", whole),
    Sort.INT32: Shape("int", whole),
    Sort.INT64: Shape("long", whole),
    Sort.UINT32: Shape("long", whole),
    Sort.UINT64: Shape("bytes", scaled(0), {"logicalType": "decimal", "precision": 20, "scale": 0}),
    Sort.FLOAT32: Shape("float", real),
    Sort.FLOAT64: Shape("double", real),
    Sort.BYTES: Shape("bytes", bytes_of),
    Sort.DATE: Shape("int", numbers.days, {"logicalType": "date"}),
    Sort.TIME: Shape("long", numbers.time_us, {"logicalType": "time-micros"}),
    Sort.TIMESTAMP: Shape("long", numbers.timestamp_us, {"logicalType": "local-timestamp-micros"}),
    Sort.TIMESTAMP_ZONED: Shape("long", numbers.timestamp_us, {"logicalType": "timestamp-micros"}),
    Sort.UUID: Shape("string", as_it_is, {"logicalType": "uuid"}),
}


def shape_of(kind: Kind, is_key: bool = False) -> Shape:
    """The shape of values of a kind.

    Equal keys must always have equal bytes, and the schema is a part of these: so a key's integers
    are longs, as columns may be widened, and its enums are strings, as symbols may be added.
    """
    if is_key and kind.sort in _INTEGERS:
        return _SHAPES[Sort.INT64]
    if kind.sort is Sort.DECIMAL and has_digits(kind):
        digits = {"logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
        return Shape("bytes", scaled(kind.scale), digits)
    if kind.sort is Sort.ENUM and not is_key and all(map(_NAME.fullmatch, kind.symbols)):
        return Shape("enum", symbol(kind.symbols), {"symbols": list(kind.symbols)})
    if kind.sort is Sort.ARRAY and kind.element is not None:
        return Shape(ARRAY, as_it_is, items=shape_of(kind.element), delimiter=kind.delimiter)
    return _SHAPES.get(kind.sort, _TEXT)


def has_digits(kind: Kind) -> bool:
    """Whether a decimal declares its number of digits, and readers support that many."""
    return kind.precision is not None and kind.precision <= _DIGITS_MAX


def type_of(shape: Shape, field: str) -> Any:
    """The Avro type of a field's shape."""
    if shape.items is not None:
        return {"type": "array", "items": ["null", type_of(shape.items, field)]}
    named = {"name": f"Value_{field}"} if shape.primitive == "enum" else {}
    attributes = {**named, **shape.attributes}
    return {"type": shape.primitive, **attributes} if attributes else shape.primitive


def record_of(topic: str, columns: Sequence[Column], is_key: bool) -> dict[str, Any]:
    """The schema of a topic's keys, or of its rows."""
    fields: list[dict[str, Any]] = []
    for column, name in zip(columns, field_names(topic, columns), strict=True):
        type_: Any = type_of(shape_of(column.kind, is_key), name)
        field = {"name": name, "type": type_} if is_key else nullable(name, type_)
        fields.append(field if name == column.name else {**field, "column": column.name})
    return {
        "type": "record",
        "name": "Key" if is_key else "Value",
        "namespace": namespace(topic),
        "fields": fields,
    }


def nullable(name: str, type_: Any) -> dict[str, Any]:
    """A field that may be null, and may be missing in rows written before it was added."""
    return {"name": name, "type": ["null", type_], "default": None}


def namespace(topic: str) -> str:
    """The namespace of a topic's schemas: its name, with _ for characters Avro does not allow."""
    return ".".join(adjusted(each) for each in topic.split("."))


def adjusted(name: str) -> str:
    """A name that Avro allows."""
    found = _OTHERS.sub("_", name)
    return found if _NAME.fullmatch(found) else f"_{found}"


def field_names(topic: str, columns: Sequence[Column]) -> list[str]:
    """The names of the columns' fields.

    Raises:
        CaptureError: two columns would have the same one.
    """
    found: dict[str, str] = {}
    for column in columns:
        name = adjusted(column.name)
        if name in found:
            raise CaptureError(
                f"topic {topic}: the columns {found[name]!r} and {column.name!r} would both be the "
                f"Avro field {name!r}: rename one of them, or take --format json"
            )
        found[name] = column.name
    return list(found)
