"""UnregisterBroker (key 64), version 0."""

from __future__ import annotations

from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.schema.declaration import message
from drumlin.wire.schema.types import Int32, Milliseconds32


@message
class UnregisterBrokerRequest:
    broker_id: Int32


@message
class UnregisterBrokerResponse:
    throttle_time: Milliseconds32
    error_code: ErrorCode
    error_message: str | None
