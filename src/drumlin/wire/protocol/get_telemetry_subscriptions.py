"""GetTelemetrySubscriptions (key 71), version 0."""

from __future__ import annotations

from uuid import UUID

from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.schema.declaration import message
from drumlin.wire.schema.types import Int8, Int32, Milliseconds32


@message
class GetTelemetrySubscriptionsRequest:
    client_instance_id: UUID | None


@message
class GetTelemetrySubscriptionsResponse:
    throttle_time: Milliseconds32
    error_code: ErrorCode
    client_instance_id: UUID | None
    subscription_id: Int32
    accepted_compression_types: tuple[Int8, ...]
    push_interval: Milliseconds32
    telemetry_max_bytes: Int32
    delta_temporality: bool
    requested_metrics: tuple[str, ...]
