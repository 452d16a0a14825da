"""The schemas of Kafka Connect, with the types of Debezium, for keys and rows. Pure.

Schemas have the form that Connect's JSON converter writes; `avro_of` converts one as Connect's Avro
converter does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from drumlin.capture.forms import numbers
from drumlin.capture.forms.avro_schema import adjusted, namespace
from drumlin.capture.forms.shapes import (
    ARRAY,
    VARIABLE,
    Read,
    Shape,
    as_it_is,
    real,
    scaled,
    truth,
    whole,
)
from drumlin.capture.values.kinds import Column, Kind, Sort
from drumlin.capture.values.plain import UnknownSymbol, bytes_of

Schema = dict[str, Any]
_DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"
_TIME: Final = "io.debezium.time."
_DATA: Final = "io.debezium.data."
_MILLIS_DIGITS: Final = 3
#: The numbers that Debezium writes for the infinities, in microseconds.
_INFINITY_US: Final = {
    "infinity": 9_223_372_036_825_200_000,
    "-infinity": -9_223_372_036_832_400_000,
}
_INTEGERS: Final = frozenset({Sort.INT16, Sort.INT32, Sort.INT64, Sort.UINT32})
_BARE: Final = {
    Sort.BOOLEAN: (Shape("boolean", truth), "boolean"),
    Sort.INT16: (Shape("int", whole), "int16"),
    Sort.INT32: (Shape("int", whole), "int32"),
    Sort.INT64: (Shape("long", whole), "int64"),
    Sort.UINT32: (Shape("long", whole), "int64"),
    Sort.FLOAT32: (Shape("float", real), "float"),
    Sort.FLOAT64: (Shape("double", real), "double"),
    Sort.BYTES: (Shape("bytes", bytes_of), "bytes"),
}
#: The names of the schemas of special strings.
_NAMED: Final = {Sort.JSON: "Json", Sort.UUID: "Uuid"}
_NAMED_TYPES: Final = {"xml": "Xml", "tsvector": "Tsvector", "ltree": "Ltree"}
_AVRO: Final = {"int16": "int", "int32": "int", "int64": "long"}


def field_of(kind: Kind, is_key: bool = False) -> tuple[Shape, Schema]:
    """The shape of values of a kind, and their schema, which allows nulls outside of a key.

    Equal keys must always have equal bytes, and the schema may be a part of these: so a key's
    integers have 64 bits, as a column's type may be widened, and its enums are plain strings, as
    symbols may be added.
    """
    if is_key and kind.sort in _INTEGERS:
        kind = Kind(Sort.INT64)
    if is_key and kind.sort is Sort.ENUM:
        kind = Kind(Sort.TEXT)
    shape, schema = _field(kind)
    return shape, {**schema, "optional": not is_key}


def _field(kind: Kind) -> tuple[Shape, Schema]:
    sort = kind.sort
    if sort in _BARE:
        shape, name = _BARE[sort]
        return shape, {"type": name}
    if sort in _MAKERS:
        return _MAKERS[sort](kind)
    name = _NAMED.get(sort) or _NAMED_TYPES.get(kind.name, "")
    schema = _named("string", f"{_DATA}{name}") if name else {"type": "string"}
    return Shape("string", as_it_is), schema


def _named(type_: str, name: str, **parameters: object) -> Schema:
    schema: Schema = {"type": type_, "name": name, "version": 1}
    if parameters:
        schema["parameters"] = {each: str(value) for each, value in parameters.items()}
    return schema


def _decimal(kind: Kind) -> tuple[Shape, Schema]:
    if kind.sort is Sort.UINT64:
        return Shape("bytes", scaled(0)), _named("bytes", _DECIMAL, scale=0)
    if kind.precision is None:
        fields = [_required("int32", "scale"), _required("bytes", "value")]
        schema = {**_named("struct", f"{_DATA}VariableScaleDecimal"), "fields": fields}
        return Shape(VARIABLE, as_it_is), schema
    parameters = {"scale": kind.scale, "connect.decimal.precision": kind.precision}
    return Shape("bytes", scaled(kind.scale)), _named("bytes", _DECIMAL, **parameters)


def _money(_: Kind) -> tuple[Shape, Schema]:
    def read(text: str) -> bytes:
        return numbers.big_endian(numbers.cents(text))

    return Shape("bytes", read), _named("bytes", _DECIMAL, scale=2)


def _date(_: Kind) -> tuple[Shape, Schema]:
    return Shape("int", numbers.days), _named("int32", f"{_TIME}Date")


def _time(kind: Kind) -> tuple[Shape, Schema]:
    if kind.precision is not None and kind.precision <= _MILLIS_DIGITS:
        return Shape("int", _in_ms(numbers.time_us)), _named("int32", f"{_TIME}Time")
    return Shape("long", numbers.time_us), _named("int64", f"{_TIME}MicroTime")


def _timestamp(kind: Kind) -> tuple[Shape, Schema]:
    if kind.precision is not None and kind.precision <= _MILLIS_DIGITS:
        return Shape("long", _in_ms(_moment_us)), _named("int64", f"{_TIME}Timestamp")
    return Shape("long", _moment_us), _named("int64", f"{_TIME}MicroTimestamp")


def _in_ms(read_us: Read) -> Read:
    return lambda text: read_us(text) // 1000


def _moment_us(text: str) -> int:
    return _INFINITY_US[text] if text in _INFINITY_US else numbers.timestamp_us(text)


def _timestamp_zoned(kind: Kind) -> tuple[Shape, Schema]:
    width = 6 if kind.precision is None else kind.precision

    def read(text: str) -> str:
        return numbers.zoned_iso(text, width)

    return Shape("string", read), _named("string", f"{_TIME}ZonedTimestamp")


def _time_zoned(_: Kind) -> tuple[Shape, Schema]:
    return Shape("string", numbers.time_in_utc), _named("string", f"{_TIME}ZonedTime")


def _interval(_: Kind) -> tuple[Shape, Schema]:
    return Shape("string", as_it_is), _named("string", f"{_TIME}Interval")


def _enum(kind: Kind) -> tuple[Shape, Schema]:
    symbols = frozenset(kind.symbols)

    def read(text: str) -> str:
        if text not in symbols:
            raise UnknownSymbol(f"{text[:100]!r} is not one of {', '.join(kind.symbols)}")
        return text

    return Shape("string", read), _named("string", f"{_DATA}Enum", allowed=",".join(kind.symbols))


def _bits(kind: Kind) -> tuple[Shape, Schema]:
    if kind.precision == 1:
        return Shape("boolean", lambda text: text == "1"), {"type": "boolean"}

    def read(text: str) -> bytes:
        return int(text or "0", 2).to_bytes((len(text) + 7) // 8, "little")

    length = 2**31 - 1 if kind.precision is None else kind.precision
    return Shape("bytes", read), _named("bytes", f"{_DATA}Bits", length=length)


def _array(kind: Kind) -> tuple[Shape, Schema]:
    shape, schema = _field(kind.element or Kind(Sort.TEXT))
    items = {**schema, "optional": True}
    array = Shape(ARRAY, as_it_is, items=shape, delimiter=kind.delimiter)
    return array, {"type": "array", "items": items}


_MAKERS: Final = {
    Sort.DECIMAL: _decimal,
    Sort.UINT64: _decimal,
    Sort.MONEY: _money,
    Sort.DATE: _date,
    Sort.TIME: _time,
    Sort.TIME_ZONED: _time_zoned,
    Sort.TIMESTAMP: _timestamp,
    Sort.TIMESTAMP_ZONED: _timestamp_zoned,
    Sort.INTERVAL: _interval,
    Sort.ENUM: _enum,
    Sort.BITS: _bits,
    Sort.ARRAY: _array,
}


def struct(name: str, fields: Sequence[Schema], optional: bool = False) -> Schema:
    return {"type": "struct", "fields": list(fields), "optional": optional, "name": name}


def _required(type_: str, field: str) -> Schema:
    return {"type": type_, "optional": False, "field": field}


def key_schema(topic: str, key: Sequence[Column]) -> Schema:
    fields = [{**field_of(each.kind, True)[1], "field": each.name} for each in key]
    return struct(f"{topic}.Key", fields)


def row_schema(topic: str, columns: Sequence[Column], key: Sequence[str]) -> Schema:
    """The schema of rows, in which the columns of the key are required."""
    fields = [
        {**field_of(each.kind)[1], "optional": each.name not in key, "field": each.name}
        for each in columns
    ]
    return struct(f"{topic}.Value", fields, True)


def avro_of(schema: Mapping[str, Any], known: set[str]) -> Any:
    """The Avro schema for a Connect schema. `known`: the records that are already defined."""
    type_, name = schema["type"], schema.get("name", "")
    parts: dict[str, Any] = {}
    if type_ == "struct":
        space, _, simple = name.rpartition(".")
        space = namespace(space)
        if f"{space}.{simple}" in known:
            return f"{space}.{simple}"
        known.add(f"{space}.{simple}")
        fields = [_avro_field(each, known) for each in schema["fields"]]
        parts = {"type": "record", "name": simple, "namespace": space, "fields": fields}
    elif type_ == "array":
        parts = {
            "type": "array",
            "items": _optional(schema["items"], avro_of(schema["items"], known)),
        }
    else:
        parts = {"type": _AVRO.get(type_, type_)}
    if type_ == "int16":
        parts["connect.type"] = "int16"
    if "version" in schema:
        parts["connect.version"] = schema["version"]
    if "parameters" in schema:
        parts["connect.parameters"] = schema["parameters"]
    if name:
        parts["connect.name"] = name
    if name == _DECIMAL and "connect.decimal.precision" in schema["parameters"]:
        parts["logicalType"] = "decimal"
        parts["scale"] = int(schema["parameters"]["scale"])
        parts["precision"] = int(schema["parameters"]["connect.decimal.precision"])
    return parts if len(parts) > 1 else parts["type"]


def _avro_field(schema: Mapping[str, Any], known: set[str]) -> Schema:
    field: Schema = {"name": adjusted(schema["field"])}
    field["type"] = _optional(schema, avro_of(schema, known))
    if schema.get("optional"):
        field["default"] = None
    return field


def _optional(schema: Mapping[str, Any], type_: Any) -> Any:
    return ["null", type_] if schema.get("optional") else type_
