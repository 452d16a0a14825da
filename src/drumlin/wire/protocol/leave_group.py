"""LeaveGroup (key 13), versions 0 to 5."""

from __future__ import annotations

from typing import Annotated

from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.schema.declaration import NEVER, NullFrom, Versions, message
from drumlin.wire.schema.types import ZERO, Milliseconds32


@message
class MemberIdentity:
    member_id: str
    group_instance_id: str | None = None
    reason: Annotated[str | None, Versions(5)] = None


@message
class LeaveGroupRequest:
    group_id: str
    member_id: Annotated[str, Versions(0, 2)] = ""
    members: Annotated[tuple[MemberIdentity, ...] | None, Versions(3), NullFrom(NEVER)] = None


@message
class MemberResponse:
    member_id: str
    group_instance_id: str | None
    error_code: ErrorCode


@message
class LeaveGroupResponse:
    throttle_time: Annotated[Milliseconds32, Versions(1)] = ZERO
    error_code: ErrorCode
    members: Annotated[tuple[MemberResponse, ...], Versions(3)] = ()
