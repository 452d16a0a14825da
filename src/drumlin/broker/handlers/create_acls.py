"""CreateAcls (key 30), versions 1-3: add ACLs, each with its own result. See `unsecured.py`."""

from __future__ import annotations

from drumlin.broker.context import RequestContext
from drumlin.broker.rights.acl_elements import check_elements
from drumlin.broker.rights.unsecured import no_acls
from drumlin.turns import give_way
from drumlin.wire.messages import ZERO
from drumlin.wire.protocol.create_acls import (
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)


async def handle(_: RequestContext, request: CreateAclsRequest) -> CreateAclsResponse:
    for each in request.creations:
        check_elements(
            each.resource_type, each.resource_pattern_type, each.operation, each.permission_type
        )
        await give_way()
    refused = no_acls()
    result = AclCreationResult(error_code=refused.code, error_message=refused.message)
    results = (result,) * len(request.creations)
    return CreateAclsResponse(throttle_time=ZERO, results=results)
