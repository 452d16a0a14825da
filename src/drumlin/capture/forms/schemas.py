"""The schemas of records in a registry: registered before the first record, and found by id.

The only file of this room that makes connections.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from typing import Any, Final

from drumlin.capture.errors import CaptureError, CaptureRefused
from drumlin.client.values.errors import RegistryError, RegistryUnavailable, UnknownSchema
from drumlin.client.values.registry import SchemaRegistry, register, schema_of_version

NO_SCHEMAS: Final = "Avro needs the packages fastavro and pyarrow: pip install fastavro pyarrow"
HEADER_SIZE: Final = 5


def require_packages() -> None:
    """
    Raises:
        CaptureRefused: the packages that Avro needs are not installed.
    """
    try:
        import fastavro  # noqa: F401
        import pyarrow  # noqa: F401
    except ImportError:
        raise CaptureRefused(NO_SCHEMAS) from None


class Schemas:
    """The schemas of one registry."""

    def __init__(self, registry: SchemaRegistry) -> None:
        require_packages()
        self._registry = registry

    def header(self, table: str, subject: str, schema: Mapping[str, Any]) -> bytes:
        """Register a schema, unless it is registered; returns the header of each payload.

        Raises:
            CaptureError: the registry refuses it.
            RegistryUnavailable: the registry cannot be reached.
        """
        from drumlin.client.values.framing import header

        try:
            schema_id = register(self._registry, subject, "AVRO", json.dumps(schema))
        except RegistryUnavailable:
            raise
        except RegistryError as error:
            raise CaptureError(
                f"table {table}: the registry refuses the schema of subject {subject}: {error}: "
                "ALTER the table back, or have the registry allow it (the subject's compatibility),"
                " and start again"
            ) from error
        return header(schema_id)

    def key_header(self, table: str, subject: str, schema: Mapping[str, Any]) -> bytes:
        """`header` for keys, whose schema is a part of their bytes and must stay the first one.

        Raises:
            CaptureError: the schema has changed, or the registry refuses it.
            RegistryUnavailable: the registry cannot be reached.
        """
        head = self.header(table, subject, schema)
        with contextlib.suppress(UnknownSchema):  # the first version was deleted
            first = schema_of_version(self._registry, subject, 1).id
            if first != _id_of(head):
                raise CaptureError(
                    f"table {table}: keys have the schema {_id_of(head)} of subject {subject} now, "
                    f"and had {first}, so that they are not equal to those in the topic: take "
                    "another --prefix; or delete the subject, if no topic has such keys"
                )
        return head

    def find(self, head: bytes) -> Any:
        """The parsed schema that the header of a payload names.

        Raises:
            ValueError: there is none, or it is not an Avro schema.
            RegistryUnavailable: the registry cannot be reached.
        """
        from drumlin.client.values.schema_cache import cache_of

        schema_id = _id_of(head)
        try:
            found = cache_of(self._registry).schemas([schema_id])[schema_id]
        except UnknownSchema as error:
            raise ValueError(f"the registry has no schema {schema_id}") from error
        if isinstance(found, UnknownSchema) or found.kind != "AVRO":
            raise ValueError(f"schema {schema_id} of the registry is no Avro schema")
        return json.loads(found.text)


def _id_of(head: bytes) -> int:
    return int.from_bytes(head[1:], "big")


def head_of(data: bytes) -> bytes:
    """The header of a payload.

    Raises:
        ValueError: it has none.
    """
    if len(data) < HEADER_SIZE or data[0] != 0:
        raise ValueError("no schema id before the value")
    return data[:HEADER_SIZE]
