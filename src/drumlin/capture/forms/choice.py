"""The forms of records that a capture can write, by name."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from drumlin.capture.errors import CaptureRefused
from drumlin.capture.forms.debezium import DebeziumJson, Origin, Source
from drumlin.capture.forms.headers import WithHeaders
from drumlin.capture.values.form import Form, PlainJson
from drumlin.client.values.registry import SchemaRegistry, as_registry
from drumlin.version import __version__


class Format(StrEnum):
    """The form of records."""

    JSON = "json"
    AVRO = "avro"
    DEBEZIUM = "debezium"
    DEBEZIUM_SCHEMAS = "debezium-schemas"
    DEBEZIUM_AVRO = "debezium-avro"


_WITH_REGISTRY: Final = (Format.AVRO, Format.DEBEZIUM_AVRO)
_PLAIN: Final = (Format.JSON, Format.AVRO)


def form_of(
    format_: Format,
    registry: SchemaRegistry | str | None,
    source: Source,
    name: str,
    has_tombstones: bool = True,
    has_headers: bool = False,
) -> Form:
    """The form of a capture's records. `name`: the name of the source in envelopes.

    Raises:
        CaptureRefused: a registry is missing, or not needed; or a package is not installed.
    """
    if (registry is None) == (format_ in _WITH_REGISTRY):
        need = "needs a schema registry" if registry is None else "takes no schema registry"
        raise CaptureRefused(f"--format {format_} {need} (--registry-config)")
    if not has_tombstones and format_ in _PLAIN:
        raise CaptureRefused(f"--format {format_} has only tombstones to tell that a row is gone")
    origin = Origin(source, __version__, name)
    form = _form(format_, registry, origin, has_tombstones)
    return WithHeaders(form) if has_headers else form


def _form(
    format_: Format, registry: SchemaRegistry | str | None, origin: Origin, has_tombstones: bool
) -> Form:
    if registry is None:
        if format_ is Format.JSON:
            return PlainJson()
        return DebeziumJson(origin, format_ is Format.DEBEZIUM_SCHEMAS, has_tombstones)
    from drumlin.capture.forms.avro_rows import AvroRows
    from drumlin.capture.forms.debezium_avro import DebeziumAvro
    from drumlin.capture.forms.schemas import Schemas

    schemas = Schemas(as_registry(registry))
    if format_ is Format.AVRO:
        return AvroRows(schemas)
    return DebeziumAvro(origin, schemas, has_tombstones)
