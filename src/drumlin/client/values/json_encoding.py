"""JSON as values of a registered schema: Avro, Protobuf or JSON Schema.

A value has all fields that the schema demands, and none that it does not allow: nothing is left out
silently. By JSON Schema a text is checked, and written as it is.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any, Final

from drumlin.client.values.errors import DecoderUnavailable, SchemaError
from drumlin.client.values.framing import header
from drumlin.client.values.registry import RegisteredSchema

Encode = Callable[[bytes], bytes]

_NO_JSON_SCHEMA: Final = "JSON Schema needs the package jsonschema: pip install jsonschema"
_MESSAGE_MAX: Final = 300
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
    if schema.kind == "JSON":
        return _json(schema)
    raise SchemaError(f"schema {schema.id} is {schema.kind}, which is unknown here")


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


def _parsed(data: bytes, refuse: Callable[[str], Any] | None = None) -> Any:
    try:
        return json.loads(data, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON: {error}") from None


def _json(schema: RegisteredSchema) -> Encode:
    try:
        from jsonschema import Draft7Validator, validators
        from jsonschema.exceptions import SchemaError as InvalidSchema
        from jsonschema.exceptions import best_match
        from referencing import Registry, Resource
        from referencing.exceptions import Unresolvable
        from referencing.jsonschema import DRAFT7
    except ModuleNotFoundError:
        raise DecoderUnavailable(_NO_JSON_SCHEMA) from None
    try:
        parsed = json.loads(schema.text)
        referred = {
            name: Resource.from_contents(json.loads(text), DRAFT7)
            for name, text in schema.references
        }
        validator_class = validators.validator_for(parsed, Draft7Validator)
        validator_class.check_schema(parsed)
    except InvalidSchema as error:
        raise SchemaError(f"no JSON schema: {error.message:.{_MESSAGE_MAX}}") from None
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"no JSON schema: {error}") from None
    # With a registry of its own it fetches nothing, wherever a schema points to.
    validator = validator_class(parsed, registry=Registry().with_resources(referred.items()))

    def encode(data: bytes) -> bytes:
        value = _parsed(data, _refuse_constant)
        try:
            error = best_match(validator.iter_errors(value))
        except Unresolvable as missing:
            raise SchemaError(f"the schema refers to {missing.ref}, which is not there") from None
        except RecursionError:
            raise ValueError("is nested too deeply for the schema") from None
        if error is not None:
            message = f"{error.message:.{_MESSAGE_MAX}}"
            raise ValueError(f"does not fit the schema at {error.json_path}: {message}")
        return data

    return encode


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no value of JSON")


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
