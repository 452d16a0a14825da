"""JSON as values of a registered schema: Avro or Protobuf.

A value has all fields that the schema demands, and no others: nothing is left out silently. JSON
Schema is refused, as nothing here could check a value against it.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any, Final

from drumlin.client.values.errors import SchemaError
from drumlin.client.values.framing import header
from drumlin.client.values.registry import RegisteredSchema

Encode = Callable[[bytes], bytes]

#: The path of a schema's first message.
_FIRST_MESSAGE: Final = b"\0"


def encoder_of(schema: RegisteredSchema) -> Encode:
    """The encoder of values with the schema's id before them.

    Raises:
        SchemaError: the schema is of another kind, or invalid.
        DecoderUnavailable: a package is missing.
    """
    encode = encoder_without_id(schema)
    return lambda data: header(schema.id) + encode(data)


def encoder_without_id(schema: RegisteredSchema) -> Encode:
    """As `encoder_of`, for a schema that is not registered yet."""
    if schema.kind == "AVRO":
        return _avro(schema)
    if schema.kind == "PROTOBUF":
        return _protobuf(schema)
    raise SchemaError(f"schema {schema.id} is {schema.kind}: there are AVRO and PROTOBUF here")


def _avro(schema: RegisteredSchema) -> Encode:
    from drumlin.client.values.avro.avro_schema import AvroSchema

    AvroSchema(schema.text, schema.references)  # its errors are in plain words
    from fastavro import parse_schema, schemaless_writer

    named: dict[str, Any] = {}
    for _, text in schema.references:
        parse_schema(json.loads(text), named_schemas=named)
    parsed = parse_schema(json.loads(schema.text), named_schemas=named)

    def encode(data: bytes) -> bytes:
        value, target = _parsed(data), io.BytesIO()
        try:
            schemaless_writer(target, parsed, value, strict_allow_default=True)
        except MemoryError:
            raise
        except Exception as error:
            raise ValueError(f"{value!r:.200} does not fit the schema: {error}") from error
        return target.getvalue()

    return encode


def _parsed(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON: {error}") from None


def _protobuf(schema: RegisteredSchema) -> Encode:
    from drumlin.client.values.protobuf.proto_files import files_of

    files = files_of(schema)
    from google.protobuf import json_format, message_factory

    main = files.file[-1]
    if not main.message_type:
        raise SchemaError(f"schema {schema.id} has no message")
    name = ".".join(each for each in (main.package, main.message_type[0].name) if each)
    message = message_factory.GetMessages(files.file)[name]

    def encode(data: bytes) -> bytes:
        try:
            found = json_format.Parse(data, message())
        except (json_format.ParseError, UnicodeError) as error:
            raise ValueError(f"does not fit message {name}: {error}") from None
        return _FIRST_MESSAGE + bytes(found.SerializeToString())

    return encode
