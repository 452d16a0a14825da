"""The forms of records that a capture can be told to write, by name."""

from __future__ import annotations

from enum import StrEnum

from drumlin.capture.errors import CaptureRefused
from drumlin.capture.values.form import Form, PlainJson
from drumlin.client.values.registry import SchemaRegistry, as_registry


class Format(StrEnum):
    """The form of records."""

    JSON = "json"
    AVRO = "avro"


_WITH_REGISTRY = (Format.AVRO,)


def form_of(format_: Format, registry: SchemaRegistry | str | None) -> Form:
    """The form of a capture's records.

    Raises:
        CaptureRefused: a registry is missing, or not needed; or a package is not installed.
    """
    if (registry is None) == (format_ in _WITH_REGISTRY):
        need = "needs a schema registry" if registry is None else "takes no schema registry"
        raise CaptureRefused(f"--format {format_} {need} (--registry-config)")
    if registry is None:
        return PlainJson()
    from drumlin.capture.values.avro_form import AvroRows
    from drumlin.capture.values.schemas import Schemas

    return AvroRows(Schemas(as_registry(registry)))
