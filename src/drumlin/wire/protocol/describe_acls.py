"""DescribeAcls (key 29), versions 1 to 3."""

from __future__ import annotations

from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.schema.declaration import message
from drumlin.wire.schema.types import Int8, Milliseconds32


@message
class DescribeAclsRequest:
    resource_type_filter: Int8
    resource_name_filter: str | None
    pattern_type_filter: Int8 = 3
    principal_filter: str | None
    host_filter: str | None
    operation: Int8
    permission_type: Int8


@message
class AclDescription:
    principal: str
    host: str
    operation: Int8
    permission_type: Int8


@message
class DescribeAclsResource:
    resource_type: Int8
    resource_name: str
    pattern_type: Int8 = 3
    acls: tuple[AclDescription, ...]


@message
class DescribeAclsResponse:
    throttle_time: Milliseconds32
    error_code: ErrorCode
    error_message: str | None
    resources: tuple[DescribeAclsResource, ...]
