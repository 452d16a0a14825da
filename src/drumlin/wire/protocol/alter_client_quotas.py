"""AlterClientQuotas (key 49), versions 0 to 1."""

from __future__ import annotations

from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.schema.declaration import message
from drumlin.wire.schema.types import Float64, Milliseconds32


@message
class EntityData:
    entity_type: str
    entity_name: str | None


@message
class OpData:
    key: str
    value: Float64
    remove: bool


@message
class RequestEntryData:
    entity: tuple[EntityData, ...]
    ops: tuple[OpData, ...]


@message
class AlterClientQuotasRequest:
    entries: tuple[RequestEntryData, ...]
    validate_only: bool


@message
class EntryData:
    error_code: ErrorCode
    error_message: str | None
    entity: tuple[EntityData, ...]


@message
class AlterClientQuotasResponse:
    throttle_time: Milliseconds32
    entries: tuple[EntryData, ...]
