"""PushTelemetry (key 72), version 0."""

from __future__ import annotations

from uuid import UUID

from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.schema.declaration import message
from drumlin.wire.schema.types import Int8, Int32, Milliseconds32


@message
class PushTelemetryRequest:
    client_instance_id: UUID | None
    subscription_id: Int32
    terminating: bool
    compression_type: Int8
    metrics: bytes


@message
class PushTelemetryResponse:
    throttle_time: Milliseconds32
    error_code: ErrorCode
