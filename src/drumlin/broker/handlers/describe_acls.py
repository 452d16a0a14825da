"""DescribeAcls (key 29), versions 1-3: the ACLs that a filter matches. See `unsecured.py`."""

from __future__ import annotations

from drumlin.broker.context import RequestContext
from drumlin.broker.rights.acl_elements import check_elements
from drumlin.broker.rights.unsecured import no_acls
from drumlin.wire.messages import ZERO
from drumlin.wire.protocol.describe_acls import DescribeAclsRequest, DescribeAclsResponse


async def handle(_: RequestContext, request: DescribeAclsRequest) -> DescribeAclsResponse:
    check_elements(
        request.resource_type_filter,
        request.pattern_type_filter,
        request.operation,
        request.permission_type,
    )
    refused = no_acls()
    return DescribeAclsResponse(
        throttle_time=ZERO,
        error_code=refused.code,
        error_message=refused.message,
        resources=(),
    )
