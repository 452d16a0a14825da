"""DeleteAcls (key 31), versions 1 to 3."""

from __future__ import annotations

from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.schema.declaration import message
from drumlin.wire.schema.types import Int8, Milliseconds32


@message
class DeleteAclsFilter:
    resource_type_filter: Int8
    resource_name_filter: str | None
    pattern_type_filter: Int8 = 3
    principal_filter: str | None
    host_filter: str | None
    operation: Int8
    permission_type: Int8


@message
class DeleteAclsRequest:
    filters: tuple[DeleteAclsFilter, ...]


@message
class DeleteAclsMatchingAcl:
    error_code: ErrorCode
    error_message: str | None
    resource_type: Int8
    resource_name: str
    pattern_type: Int8 = 3
    principal: str
    host: str
    operation: Int8
    permission_type: Int8


@message
class DeleteAclsFilterResult:
    error_code: ErrorCode
    error_message: str | None
    matching_acls: tuple[DeleteAclsMatchingAcl, ...]


@message
class DeleteAclsResponse:
    throttle_time: Milliseconds32
    filter_results: tuple[DeleteAclsFilterResult, ...]
