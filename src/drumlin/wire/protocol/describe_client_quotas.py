"""DescribeClientQuotas (key 48), versions 0 to 1."""

from __future__ import annotations

from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.schema.declaration import message
from drumlin.wire.schema.types import Float64, Int8, Milliseconds32


@message
class ComponentData:
    entity_type: str
    match_type: Int8
    match: str | None


@message
class DescribeClientQuotasRequest:
    components: tuple[ComponentData, ...]
    strict: bool


@message
class EntityData:
    entity_type: str
    entity_name: str | None


@message
class ValueData:
    key: str
    value: Float64


@message
class EntryData:
    entity: tuple[EntityData, ...]
    values: tuple[ValueData, ...]


@message
class DescribeClientQuotasResponse:
    throttle_time: Milliseconds32
    error_code: ErrorCode
    error_message: str | None
    entries: tuple[EntryData, ...] | None
