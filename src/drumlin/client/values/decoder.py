"""Decodes columns of values: finds the payload of each, and its writer's schema.

Combines formats, the wire format and the registry. A decoder can be pickled, with the subject's
latest schema in it. Writers' schemas are fetched by id in the process that decodes, and cached
there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Literal, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from drumlin.client.values.decoded import Decoded, Rows, gathered
from drumlin.client.values.errors import SchemaError, UnknownSchema
from drumlin.client.values.framing import HEADER_SIZE, Payloads, by_schema, payloads, with_zero
from drumlin.client.values.nodes import BYTES_MAX, TooLarge
from drumlin.client.values.registry import (
    RegisteredSchema,
    SchemaRegistry,
    as_registry,
    latest_schema,
)
from drumlin.client.values.schema_cache import cache_of

Format: TypeAlias = Literal["json", "avro", "protobuf"]
FORMATS: Final = ("json", "avro", "protobuf")
_NO_HEADER: Final = "the value does not begin with a zero byte and a schema id"


class ValueFormat(Protocol):
    """A format of values with its reader's schema. Can be pickled."""

    @property
    def type(self) -> pa.DataType:
        """The Arrow type of values."""

    @property
    def kind(self) -> str | None:
        """The kind of its schemas in a registry; None if decoding needs no schema."""

    def check(self, writer: RegisteredSchema | None) -> None:
        """Check that values of this writer's schema can be decoded.

        Raises:
            SchemaError: none of these values can be decoded.
        """

    def decode(self, values: Payloads, writer: RegisteredSchema | None) -> Rows:
        """Decode values of a writer's schema; without one, of the reader's schema.

        Raises:
            SchemaError: none of these values can be decoded.
            TooLarge: the decoded values take too much memory.
        """


class ValueDecoder:
    """Decodes columns of bytes into columns of one type.

    Args:
        schema: for `json` the Arrow type of the values, a struct or a schema; for `avro` the
            reader's schema as JSON, for `protobuf` a `.proto` file as text; by default the
            latest one of `subject`.
        format: `json`, `avro` or `protobuf`.
        registry: the registry of the values' schemas; each value begins with its schema id (a
            zero byte, the id in four bytes). Without one, values have no header, and all have
            `schema`.
        subject: the subject whose latest schema is used: often a topic's name with `-value`. For
            `avro` also several: then values are structs with a field for each of their records,
            of which one is not null, by the name of the record that wrote a value.
        message: for `protobuf`, the full name of the message; by default the schema's first one.

    Raises:
        SchemaError: the schema is invalid, or cannot be mapped to columns.
        RegistryError: the registry does not have the subject, or cannot be reached.
        DecoderUnavailable: a package is not installed, or a compiler has failed.
        ValueError: arguments conflict.
    """

    def __init__(
        self,
        schema: str | pa.DataType | pa.Schema | None = None,
        *,
        format: Format = "json",  # noqa: A002
        registry: SchemaRegistry | str | None = None,
        subject: str | Sequence[str] | None = None,
        message: str | None = None,
    ) -> None:
        self._registry = None if registry is None else as_registry(registry)
        latest = None
        if subject is not None:
            if self._registry is None or schema is not None:
                raise ValueError("a subject needs a registry, and replaces a schema")
            if not isinstance(subject, str):
                self._format: ValueFormat = _record_types(format, self._registry, subject)
                return
            latest = latest_schema(self._registry, subject)
        self._format = _format_of(format, schema, latest, message)

    @property
    def type(self) -> pa.DataType:
        """The Arrow type of decoded values."""
        return self._format.type

    @property
    def needs_kernels(self) -> bool:
        """Whether decoding needs kernels."""
        return self._format.kind is not None

    def decode(self, values: pa.Array | pa.ChunkedArray) -> Decoded:
        """Decode a column of bytes; null for tombstones and for values that cannot be decoded.

        Raises:
            UnknownSchema: the registry does not have a value's schema (with
                `unknown_ids_are_bad` that is a reason instead).
            RegistryError, RegistryUnavailable: a schema cannot be fetched from the registry.
            DecoderUnavailable: a package, a compiler or kernels are missing here, or have
                failed. The values may still be valid.
        """
        if isinstance(values, pa.ChunkedArray):
            values = values.combine_chunks()
        pieces = list(self.pieces(values))
        reasons = {
            start + row: reason for start, each in pieces for row, reason in each.reasons.items()
        }
        if len(pieces) == 1:
            return pieces[0][1]
        return Decoded(pa.concat_arrays([each.values for _, each in pieces]), reasons)

    def pieces(self, values: pa.Array) -> Iterator[tuple[int, Decoded]]:
        """Decode in pieces within the memory limit, each with its first row."""
        try:
            yield 0, self._decode(values)
        except TooLarge:
            if len(values) == 1:
                reason = f"the decoded value takes more than {BYTES_MAX} bytes"
                yield 0, Decoded(pa.nulls(1, self.type), {0: reason})
                return
            half = len(values) // 2
            yield from self.pieces(values.slice(0, half))
            for start, decoded in self.pieces(values.slice(half)):
                yield half + start, decoded

    def _decode(self, values: pa.Array) -> Decoded:
        found = payloads(values)
        reasons: dict[int, str] = {}
        parts: list[tuple[np.ndarray, pa.Array]] = []
        size = 0
        for writer, group in self._groups(found, reasons):
            rows = self._format.decode(group, writer)
            parts.append((rows.rows, rows.values))
            size += rows.values.nbytes
            if size > BYTES_MAX and len(values) > 1:
                raise TooLarge
            reasons |= rows.reasons
        return Decoded(gathered(parts, len(values), self.type), reasons)

    def _groups(
        self, found: Payloads, reasons: dict[int, str]
    ) -> Iterator[tuple[RegisteredSchema | None, Payloads]]:
        """The values of each schema; adds a reason for each value without one."""
        if self._registry is None:
            yield None, found
            return
        is_framed = with_zero(found, HEADER_SIZE)
        reasons |= dict.fromkeys(found.rows[~is_framed].tolist(), _NO_HEADER)
        framed = found.of(np.flatnonzero(is_framed))
        if self._format.kind is None:
            yield None, framed.without_first(HEADER_SIZE)
            return
        groups = dict(by_schema(framed))
        schemas = cache_of(self._registry).schemas(groups)
        for schema_id, group in groups.items():
            writer = schemas[schema_id]
            reason = str(writer) if isinstance(writer, UnknownSchema) else self._refusal(writer)
            if reason is not None:
                reasons |= dict.fromkeys(group.rows.tolist(), reason)
            elif isinstance(writer, RegisteredSchema):
                yield writer, group

    def _refusal(self, writer: RegisteredSchema) -> str | None:
        """The reason why values of a writer's schema cannot be decoded; None if they can."""
        if writer.kind != self._format.kind:
            return f"schema {writer.id} is {writer.kind}, not {self._format.kind}"
        try:
            self._format.check(writer)
        except SchemaError as error:
            return str(error)
        return None


def _record_types(name: str, registry: SchemaRegistry, subjects: Sequence[str]) -> ValueFormat:
    if name != "avro" or not subjects:
        raise ValueError("several subjects are for avro, and at least one must be named")
    from drumlin.client.values.record_types import RecordTypes

    return RecordTypes([latest_schema(registry, each) for each in subjects])


def _format_of(
    name: str,
    schema: str | pa.DataType | pa.Schema | None,
    latest: RegisteredSchema | None,
    message: str | None,
) -> ValueFormat:
    if message is not None and name != "protobuf":
        raise ValueError("`message` is an option of Protobuf only")
    if name == "json":
        from drumlin.client.values.json.json_decoder import JsonDecoder

        if schema is None or isinstance(schema, str):
            raise ValueError("JSON needs the Arrow type of the values")
        return JsonDecoder(pa.struct(list(schema)) if isinstance(schema, pa.Schema) else schema)
    if name not in FORMATS:
        raise ValueError(f"format {name!r}: expected one of {', '.join(FORMATS)}")
    if latest is None and not isinstance(schema, str):
        raise ValueError(f"{name} needs a schema as text, or a registry and a subject")
    reader = latest or RegisteredSchema(0, name.upper(), str(schema))
    if name == "avro":
        from drumlin.client.values.avro.avro_decoder import AvroDecoder

        return AvroDecoder(reader)
    from drumlin.client.values.protobuf.protobuf_decoder import ProtobufDecoder

    return ProtobufDecoder(reader, message)
