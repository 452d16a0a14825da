"""Values with schema ids as Python objects: each by its writer's own schema, from a registry."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from drumlin.client.values.decoder import ValueFormat
from drumlin.client.values.errors import SchemaError, UnknownSchema
from drumlin.client.values.framing import (
    HEADER_SIZE,
    Payloads,
    by_schema,
    message_indexes,
    with_zero,
)
from drumlin.client.values.nodes import TooLarge
from drumlin.client.values.registry import RegisteredSchema, SchemaRegistry
from drumlin.client.values.schema_cache import cache_of

_FORMATS_MAX: Final = 1000
_NO_HEADER: Final = "the {} does not begin with a zero byte and a schema id"


class FramedValues:
    """Decodes values that begin with a schema id, by the decoders of at most 1000 messages."""

    def __init__(self, registry: SchemaRegistry) -> None:
        self._registry = registry
        self._formats: OrderedDict[tuple[int, str | None], ValueFormat] = OrderedDict()

    def decoded(
        self, found: Payloads, part: str = "value"
    ) -> tuple[dict[int, Any], dict[int, str]]:
        """Values by row, and the reasons for missing ones by row.

        `part`: what the values are of a record, for the reasons.

        Raises:
            UnknownSchema: the registry lacks one, and `unknown_ids_are_bad` is not set.
            RegistryError, RegistryUnavailable
        """
        is_framed = with_zero(found, HEADER_SIZE)
        reasons = dict.fromkeys(found.rows[~is_framed].tolist(), _NO_HEADER.format(part))
        values: dict[int, Any] = {}
        groups = dict(by_schema(found.of(np.flatnonzero(is_framed))))
        schemas = cache_of(self._registry).schemas(groups)
        for schema_id, group in groups.items():
            schema = schemas[schema_id]
            if isinstance(schema, UnknownSchema):
                reasons |= dict.fromkeys(group.rows.tolist(), str(schema))
                continue
            try:
                self._decode_group(schema, group, values, reasons)
            except SchemaError as error:
                reasons |= dict.fromkeys(group.rows.tolist(), str(error))
        return values, reasons

    def _decode_group(
        self,
        schema: RegisteredSchema,
        group: Payloads,
        values: dict[int, Any],
        reasons: dict[int, str],
    ) -> None:
        if schema.kind == "JSON":
            for place, row in enumerate(group.rows.tolist()):
                try:
                    values[row] = json.loads(group.bytes_of(place))
                except (ValueError, RecursionError) as error:
                    reasons[row] = f"not JSON: {error}"
            return
        for message, part in _messages(schema, group):
            self._decode_part(self._format(schema, message), schema, part, values, reasons)

    def _decode_part(
        self,
        format_: ValueFormat,
        schema: RegisteredSchema,
        part: Payloads,
        values: dict[int, Any],
        reasons: dict[int, str],
    ) -> None:
        try:
            decoded = format_.decode(part, schema)
        except TooLarge as error:
            if len(part.rows) == 1:
                reasons[int(part.rows[0])] = str(error)
                return
            places = np.arange(len(part.rows))
            for half in np.array_split(places, 2):
                self._decode_part(format_, schema, part.of(half), values, reasons)
            return
        reasons |= decoded.reasons
        objects = decoded.values.to_pylist(maps_as_pydicts="strict")
        values |= {
            row: value
            for row, value in zip(decoded.rows.tolist(), objects, strict=True)
            if row not in decoded.reasons
        }

    def _format(self, schema: RegisteredSchema, message: str | None) -> ValueFormat:
        found = self._formats.pop((schema.id, message), None)
        if found is None:
            if schema.kind == "AVRO":
                from drumlin.client.values.avro.avro_decoder import AvroDecoder

                found = AvroDecoder(schema)
            elif schema.kind == "PROTOBUF":
                from drumlin.client.values.protobuf.protobuf_decoder import ProtobufDecoder

                found = ProtobufDecoder(schema, message)
            else:
                raise SchemaError(f"schema {schema.id} is {schema.kind}, which is unknown here")
        self._formats[schema.id, message] = found
        if len(self._formats) > _FORMATS_MAX:
            self._formats.popitem(last=False)
        return found


def _messages(schema: RegisteredSchema, group: Payloads) -> Iterator[tuple[str | None, Payloads]]:
    """The values of each message of a Protobuf schema; all values of an Avro schema."""
    if schema.kind != "PROTOBUF":
        yield None, group
        return
    from drumlin.client.values.protobuf.proto_files import message_names

    names = message_names(schema)
    places: dict[str | None, list[int]] = {}
    for place in range(len(group.rows)):
        found = message_indexes(group.bytes_of(place))
        places.setdefault(names.get(found[0]) if found else None, []).append(place)
    for name, chosen in places.items():  # None: the first message's decoder gives the reason
        yield name, group.of(np.array(chosen))
