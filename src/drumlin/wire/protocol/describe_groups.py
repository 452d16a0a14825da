"""DescribeGroups (key 15), versions 0 to 6."""

from __future__ import annotations

from typing import Annotated

from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.schema.declaration import Versions, message
from drumlin.wire.schema.types import ZERO, Int32, Milliseconds32


@message
class DescribeGroupsRequest:
    groups: tuple[str, ...] = ()
    include_authorized_operations: Annotated[bool, Versions(3)] = False


@message
class DescribedGroupMember:
    member_id: str
    group_instance_id: Annotated[str | None, Versions(4)] = None
    client_id: str
    client_host: str
    member_metadata: bytes
    member_assignment: bytes


@message
class DescribedGroup:
    error_code: ErrorCode
    error_message: Annotated[str | None, Versions(6)] = None
    group_id: str
    group_state: str
    protocol_type: str
    protocol_data: str
    members: tuple[DescribedGroupMember, ...]
    authorized_operations: Annotated[Int32, Versions(3)] = -2147483648


@message
class DescribeGroupsResponse:
    throttle_time: Annotated[Milliseconds32, Versions(1)] = ZERO
    groups: tuple[DescribedGroup, ...]
