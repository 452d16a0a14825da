"""What Avro with a registry holds, decoded by fastavro."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro

from rig.servers.schema_registry import RegistryRig


def decoded(registry: RegistryRig, data: bytes | None) -> Any:
    """A key or a value, by the schema that the registry has under its id."""
    if data is None:
        return None
    assert data[0] == 0
    schema = json.loads(registry.text(int.from_bytes(data[1:5], "big")))
    rest = io.BytesIO(data[5:])
    found = fastavro.schemaless_reader(rest, fastavro.parse_schema(schema), None)
    assert not rest.read()
    return found
