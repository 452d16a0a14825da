"""SyncGroup (key 14), versions 0 to 5."""

from __future__ import annotations

from typing import Annotated

from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.schema.declaration import Versions, message
from drumlin.wire.schema.types import ZERO, Int32, Milliseconds32


@message
class SyncGroupRequestAssignment:
    member_id: str
    assignment: bytes


@message
class SyncGroupRequest:
    group_id: str
    generation_id: Int32
    member_id: str
    group_instance_id: Annotated[str | None, Versions(3)] = None
    protocol_type: Annotated[str | None, Versions(5)] = None
    protocol_name: Annotated[str | None, Versions(5)] = None
    assignments: tuple[SyncGroupRequestAssignment, ...]


@message
class SyncGroupResponse:
    throttle_time: Annotated[Milliseconds32, Versions(1)] = ZERO
    error_code: ErrorCode
    protocol_type: Annotated[str | None, Versions(5)] = None
    protocol_name: Annotated[str | None, Versions(5)] = None
    assignment: bytes
