"""The schemas that `produce` encodes by: a subject's latest, or a file that is registered."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from drumlin.cli.terminal import output
from drumlin.client.values.json_encoding import Encode, encoder_of, encoder_without_id
from drumlin.client.values.registry import (
    RegisteredSchema,
    SchemaRegistry,
    latest_schema,
    register,
    schema_of_id,
)

_KINDS: Final = {".avsc": "AVRO", ".proto": "PROTOBUF", ".json": "JSON"}


def encoder_by(registry: SchemaRegistry, schema: str, topic: str, part: str) -> Encode:
    """The encoder by a schema: a file, which is registered for the topic, or a subject's latest.

    `part`: "key" or "value", with which the subject's name ends.

    Raises:
        output.Failure: a schema's file cannot be read.
        SchemaError, RegistryError, DecoderUnavailable
    """
    kind = _KINDS.get(Path(schema).suffix)
    if kind is None:
        return encoder_of(latest_schema(registry, schema))
    try:
        text = Path(schema).read_text("utf-8")
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise output.Failure(f"{schema}: {reason}") from None
    encoder_without_id(RegisteredSchema(0, kind, text))  # a wrong schema is not registered
    return encoder_of(schema_of_id(registry, register(registry, f"{topic}-{part}", kind, text)))
