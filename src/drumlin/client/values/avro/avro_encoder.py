"""Encodes Arrow columns as Avro values: their schema, and the bytes of each row.

fastavro encodes row by row. It gets times as integers, so dates outside of Python's range are
possible.
"""

from __future__ import annotations

import io
import json
import re
from typing import Any, Final

import pyarrow as pa

from drumlin.client.values.avro.avro_schema import NO_PACKAGE
from drumlin.client.values.errors import DecoderUnavailable, SchemaError
from drumlin.client.values.framing import header
from drumlin.client.values.registry import SchemaRegistry, as_registry, register

_NAME: Final = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_PLAIN: Final = {
    pa.null(): "null",
    pa.bool_(): "boolean",
    pa.int8(): "int",
    pa.int16(): "int",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "bytes",
    pa.date32(): {"type": "int", "logicalType": "date"},
    pa.timestamp("us"): {"type": "long", "logicalType": "local-timestamp-micros"},
}


class AvroEncoder:
    """An encoder for columns of one type.

    Args:
        type: the type of the columns.
        schema: the schema as JSON; by default derived from the type (see `schema_of`).
        registry: the registry in which the schema is registered now; values begin with its id.
        subject: the subject under which it is registered.

    Raises:
        SchemaError: a part of the type has no counterpart in Avro, or the schema is invalid.
        RegistryError: the registry refuses the schema, or cannot be reached.
        ValueError: a registry is given without a subject, or a subject without a registry.
    """

    def __init__(
        self,
        type: pa.DataType,  # noqa: A002
        schema: str | None = None,
        *,
        registry: SchemaRegistry | str | None = None,
        subject: str | None = None,
    ) -> None:
        if (registry is None) != (subject is None):
            raise ValueError("a registry needs a subject, and a subject a registry")
        self._type = type
        self._text = schema or json.dumps(schema_of(type))
        self._parsed = _parsed(self._text)
        self._header = b""
        if registry is not None and subject is not None:
            self._header = header(register(as_registry(registry), subject, "AVRO", self._text))

    def encode(self, values: pa.Array) -> pa.Array:
        """The bytes of each row; null for null rows.

        Raises:
            ValueError: a value does not fit the schema.
        """
        from fastavro import schemaless_writer

        encoded: list[bytes | None] = []
        for value in _python_values(values):
            if value is None:
                encoded.append(None)
                continue
            target = io.BytesIO()
            target.write(self._header)
            try:
                schemaless_writer(target, self._parsed, value)
            except MemoryError:
                raise
            except Exception as error:
                raise ValueError(f"{value!r:.200} does not fit the schema: {error}") from error
            encoded.append(target.getvalue())
        return pa.array(encoded, pa.binary())


def schema_of(type_: pa.DataType, name: str = "Value") -> Any:
    """An Avro schema for values of a type, with all parts nullable.

    Raises:
        SchemaError: a part has no counterpart.
    """
    if type_ in _PLAIN:
        return _PLAIN[type_]
    if pa.types.is_timestamp(type_) and type_.unit == "us":
        return {"type": "long", "logicalType": "timestamp-micros"}
    if pa.types.is_decimal128(type_):
        digits = {"precision": type_.precision, "scale": type_.scale}
        return {"type": "bytes", "logicalType": "decimal", **digits}
    if pa.types.is_list(type_):
        return {"type": "array", "items": _nullable(type_.value_type, f"{name}_item")}
    if pa.types.is_map(type_) and pa.types.is_string(type_.key_type):
        return {"type": "map", "values": _nullable(type_.item_type, f"{name}_value")}
    if not pa.types.is_struct(type_):
        raise SchemaError(f"{name}: Avro has no type for {type_}")
    for each in type_:
        if _NAME.fullmatch(each.name) is None:
            raise SchemaError(f"{name}: {each.name!r} is not a valid Avro field name")
    fields = [
        {"name": each.name, "type": _nullable(each.type, f"{name}_{each.name}"), "default": None}
        for each in type_
    ]
    return {"type": "record", "name": name, "fields": fields}


def _nullable(type_: pa.DataType, name: str) -> Any:
    form = schema_of(type_, name)
    return form if form == "null" else ["null", form]


def _parsed(text: str) -> Any:
    try:
        from fastavro import parse_schema
    except ImportError:
        raise DecoderUnavailable(NO_PACKAGE) from None
    try:
        return parse_schema(json.loads(text))
    except Exception as error:
        raise SchemaError(f"not an Avro schema: {error!r}") from error


def _python_values(values: pa.Array) -> list[Any]:
    found: list[Any] = values.cast(_storage(values.type)).to_pylist(maps_as_pydicts="strict")
    return found


def _storage(type_: pa.DataType) -> pa.DataType:
    """The type with integers in place of times."""
    if pa.types.is_timestamp(type_):
        return pa.int64()
    if pa.types.is_date32(type_):
        return pa.int32()
    if pa.types.is_list(type_):
        return pa.list_(_stored(type_.value_field))
    if pa.types.is_map(type_):
        return pa.map_(type_.key_type, _stored(type_.item_field))
    if pa.types.is_struct(type_):
        return pa.struct([_stored(each) for each in type_])
    return type_


def _stored(field: pa.Field) -> pa.Field:
    return field.with_type(_storage(field.type))
