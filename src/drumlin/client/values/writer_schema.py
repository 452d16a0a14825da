"""The schema that an encoder writes with: one of its own, or one that a registry has already."""

from __future__ import annotations

from typing import Literal, TypeAlias

from drumlin.client.values.errors import SchemaError
from drumlin.client.values.registry import (
    RegisteredSchema,
    SchemaRegistry,
    as_registry,
    latest_schema,
    schema_of_id,
)

#: A schema in the registry: its id, or the latest one of a subject.
SchemaId: TypeAlias = int | Literal["latest"]


def check_schema_arguments(
    schema: str | None,
    registry: SchemaRegistry | str | None,
    subject: str | None,
    schema_id: SchemaId | None,
) -> None:
    """Check the arguments that say with which schema values are written.

    Raises:
        ValueError: they contradict each other.
    """
    if schema_id is None:
        if (registry is None) != (subject is None):
            raise ValueError("a registry needs a subject, and a subject a registry")
        return
    is_id = isinstance(schema_id, int) and not isinstance(schema_id, bool)
    if not is_id and schema_id != "latest":
        raise ValueError(f"schema_id={schema_id!r}: expected an id, or 'latest' with a subject")
    if registry is None or schema is not None:
        raise ValueError("`schema_id` needs a registry, and replaces `schema`")
    if is_id == (subject is not None):
        raise ValueError("an id names its schema alone; schema_id='latest' needs a subject")


def registered_schema(
    registry: SchemaRegistry | str, subject: str | None, schema_id: SchemaId, kind: str
) -> RegisteredSchema:
    """The schema in the registry, where nothing is written.

    Raises:
        SchemaError: it is of another kind.
        UnknownSchema, RegistryError, RegistryUnavailable: it is not there.
    """
    where = as_registry(registry)
    if isinstance(schema_id, int):
        found = schema_of_id(where, schema_id)
    else:
        assert subject is not None
        found = latest_schema(where, subject)
    if found.kind != kind:
        raise SchemaError(f"schema {found.id} is {found.kind}, not {kind}")
    return found
