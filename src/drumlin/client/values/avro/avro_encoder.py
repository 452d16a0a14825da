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

from drumlin.client.values.avro.avro_fit import conversion_of
from drumlin.client.values.avro.avro_schema import AvroSchema
from drumlin.client.values.errors import SchemaError
from drumlin.client.values.framing import header
from drumlin.client.values.python_values import python_values
from drumlin.client.values.registry import RegisteredSchema, SchemaRegistry, as_registry, register
from drumlin.client.values.writer_schema import SchemaId, check_schema_arguments, registered_schema

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
        schema_id: write with a schema that the registry has, and register nothing: its id, or
            `latest` for the latest one of `subject`.

    Raises:
        SchemaError: a part of the type has no counterpart in Avro or in the schema, or the schema
            is invalid.
        UnknownSchema, RegistryError: the registry refuses the schema or does not have it, or
            cannot be reached.
        ValueError: arguments contradict each other.
    """

    def __init__(
        self,
        type: pa.DataType,  # noqa: A002
        schema: str | None = None,
        *,
        registry: SchemaRegistry | str | None = None,
        subject: str | None = None,
        schema_id: SchemaId | None = None,
    ) -> None:
        check_schema_arguments(schema, registry, subject, schema_id)
        self._header = b""
        if registry is not None and schema_id is not None:
            self._schema = registered_schema(registry, subject, schema_id, "AVRO")
            self._header = header(self._schema.id)
        else:
            self._schema = RegisteredSchema(0, "AVRO", schema or json.dumps(schema_of(type)))
        self._type = type
        self._prepare()
        if registry is not None and subject is not None and schema_id is None:
            self._header = header(
                register(as_registry(registry), subject, "AVRO", self._schema.text)
            )

    def _prepare(self) -> None:
        parsed = AvroSchema(self._schema.text, self._schema.references)
        self._parsed: Any = parsed.root
        self._convert = conversion_of(parsed, self._type)

    def __getstate__(self) -> tuple[Any, ...]:
        return self._schema, self._type, self._header

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self._schema, self._type, self._header = state
        self._prepare()

    def encode(self, values: pa.Array) -> pa.Array:
        """The bytes of each row; null for null rows.

        Raises:
            ValueError: a value does not fit the schema.
        """
        from fastavro import schemaless_writer

        encoded: list[bytes | None] = []
        for value in python_values(values):
            if value is None:
                encoded.append(None)
                continue
            target = io.BytesIO()
            target.write(self._header)
            try:
                fitting = value if self._convert is None else self._convert(value)
                schemaless_writer(target, self._parsed, fitting)
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
