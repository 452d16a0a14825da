"""JoinGroup (key 11), versions 0 to 9."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.schema.declaration import NullFrom, Versions, message
from drumlin.wire.schema.types import ZERO, Int32, Milliseconds32


@message
class JoinGroupRequestProtocol:
    name: str
    metadata: bytes


@message
class JoinGroupRequest:
    group_id: str
    session_timeout: Milliseconds32
    rebalance_timeout: Annotated[Milliseconds32, Versions(1)] = timedelta(milliseconds=-1)
    member_id: str
    group_instance_id: Annotated[str | None, Versions(5)] = None
    protocol_type: str
    protocols: tuple[JoinGroupRequestProtocol, ...]
    reason: Annotated[str | None, Versions(8)] = None


@message
class JoinGroupResponseMember:
    member_id: str
    group_instance_id: Annotated[str | None, Versions(5)] = None
    metadata: bytes


@message
class JoinGroupResponse:
    throttle_time: Annotated[Milliseconds32, Versions(2)] = ZERO
    error_code: ErrorCode
    generation_id: Int32 = -1
    protocol_type: Annotated[str | None, Versions(7)] = None
    protocol_name: Annotated[str | None, NullFrom(7)]
    leader: str
    skip_assignment: Annotated[bool, Versions(9)] = False
    member_id: str
    members: tuple[JoinGroupResponseMember, ...]
