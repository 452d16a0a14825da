"""Keys and values with schema ids as Python objects: each by its writer's own schema."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from drumlin.cli.reach.command_config import REGISTRY, properties_of
from drumlin.cli.terminal import output
from drumlin.client.values.decoder import ValueFormat
from drumlin.client.values.errors import SchemaError, UnknownSchema
from drumlin.client.values.framing import (
    HEADER_SIZE,
    Payloads,
    by_schema,
    message_indexes,
    payloads,
    with_zero,
)
from drumlin.client.values.nodes import TooLarge
from drumlin.client.values.registry import RegisteredSchema, SchemaRegistry
from drumlin.client.values.registry_properties import registry_in
from drumlin.client.values.schema_cache import cache_of

if TYPE_CHECKING:
    from drumlin.cli.terminal.record_text import Row

_NO_HEADER: Final = "the {} does not begin with a zero byte and a schema id"
#: Why keys and values were not decoded, by the index of the row.
Reasons = dict[int, str]


def registry_of(url: str, config: Path | None) -> SchemaRegistry:
    """The registry at this address, with the login in the configuration file, if it is for it.

    Raises:
        output.Failure: a property or the address is invalid.
    """
    properties = {} if config is None else properties_of(config)
    found = {name: text for name, text in properties.items() if name.startswith(REGISTRY)}
    if found.get(f"{REGISTRY}url", url).rstrip("/") != url.rstrip("/"):
        found = {}  # a login is for one registry
    try:
        return registry_in(found | {f"{REGISTRY}url": url})
    except ValueError as error:
        raise output.Failure(f"--registry {url}: {error}") from None


class RegistryValues:
    """Decodes keys and values of rows. What cannot be decoded stays as it is."""

    def __init__(self, registry: SchemaRegistry, parts: Sequence[str]) -> None:
        """`parts`: "key", "value" or both."""
        self._registry = registry
        self._parts = parts
        self._formats: dict[tuple[int, str | None], ValueFormat] = {}
        self.undecoded: Counter[str] = Counter()  # by the part of a record
        self.first_reason: str | None = None

    def decode(self, rows: list[Row]) -> dict[str, Reasons]:
        """Replace keys and values of rows by decoded ones; returns the reasons for others, by part.

        Rows were read with their offset. A part that was not read is left out.
        """
        reasons = {}
        for part in self._parts:
            if rows and part in rows[0]:
                column = pa.array([row[part] for row in rows], pa.large_binary())
                decoded, reasons[part] = self._decoded(payloads(column), part)
                for index, value in decoded.items():
                    rows[index][part] = value
        return reasons

    def note(self, rows: list[Row], reasons: dict[str, Reasons]) -> None:
        """Count what was not decoded."""
        for part, found in reasons.items():
            self.undecoded[part] += len(found)
            if found and self.first_reason is None:
                index = min(found)
                row = rows[index]
                where = f"{row['topic']}-{row['partition']} offset {row['offset']}"
                self.first_reason = f"{where}: {found[index]}"

    def _decoded(self, found: Payloads, part: str) -> tuple[dict[int, Any], Reasons]:
        """Values by row, and the reasons for missing ones by row."""
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
        reasons: Reasons,
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
        reasons: Reasons,
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
        found = self._formats.get((schema.id, message))
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
