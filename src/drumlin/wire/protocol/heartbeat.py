"""Heartbeat (key 12), versions 0 to 4."""

from __future__ import annotations

from typing import Annotated

from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.schema.declaration import Versions, message
from drumlin.wire.schema.types import ZERO, Int32, Milliseconds32


@message
class HeartbeatRequest:
    group_id: str
    generation_id: Int32
    member_id: str
    group_instance_id: Annotated[str | None, Versions(3)] = None


@message
class HeartbeatResponse:
    throttle_time: Annotated[Milliseconds32, Versions(1)] = ZERO
    error_code: ErrorCode
