"""DeleteAcls (key 31), versions 1-3: remove the ACLs that filters match, with a result for each
filter. See `unsecured.py`.
"""

from __future__ import annotations

from drumlin.broker.context import RequestContext
from drumlin.broker.rights.acl_elements import check_elements
from drumlin.broker.rights.unsecured import no_acls
from drumlin.turns import give_way
from drumlin.wire.messages import ZERO
from drumlin.wire.protocol.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
)


async def handle(_: RequestContext, request: DeleteAclsRequest) -> DeleteAclsResponse:
    for each in request.filters:
        check_elements(
            each.resource_type_filter,
            each.pattern_type_filter,
            each.operation,
            each.permission_type,
        )
        await give_way()
    refused = no_acls()
    result = DeleteAclsFilterResult(
        error_code=refused.code,
        error_message=refused.message,
        matching_acls=(),
    )
    results = (result,) * len(request.filters)
    return DeleteAclsResponse(throttle_time=ZERO, filter_results=results)
