"""DescribeAcls (key 29), versions 1-3: the ACLs that a filter matches."""

from __future__ import annotations

from drumlin.broker.context import RequestContext
from drumlin.broker.rights.acl_elements import check_elements
from drumlin.broker.rights.acl_filters import AclFilter
from drumlin.broker.rights.acls import Operation, acls_in
from drumlin.broker.rights.unsecured import no_acls
from drumlin.turns import give_way
from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.messages import ZERO
from drumlin.wire.protocol.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)


async def handle(context: RequestContext, request: DescribeAclsRequest) -> DescribeAclsResponse:
    check_elements(
        request.resource_type_filter,
        request.pattern_type_filter,
        request.operation,
        request.permission_type,
    )
    context.require_cluster(Operation.DESCRIBE)
    if context.broker.authorizer is None:
        refused = no_acls()
        return DescribeAclsResponse(
            throttle_time=ZERO,
            error_code=refused.code,
            error_message=refused.message,
            resources=(),
        )
    wanted = AclFilter(
        request.resource_type_filter,
        request.resource_name_filter,
        request.pattern_type_filter,
        request.principal_filter,
        request.host_filter,
        request.operation,
        request.permission_type,
    )
    resources = []
    for target, rules in list(acls_in(context.broker.metadata.image)):
        await give_way()
        if not wanted.matches_target(target):
            continue
        acls = tuple(
            AclDescription(
                principal=rule.principal,
                host=rule.host,
                operation=rule.operation,
                permission_type=rule.permission,
            )
            for rule in sorted(rules)
            if wanted.matches_rule(rule)
        )
        if acls:
            resources.append(
                DescribeAclsResource(
                    resource_type=target.kind,
                    resource_name=target.name,
                    pattern_type=target.pattern,
                    acls=acls,
                )
            )
    return DescribeAclsResponse(
        throttle_time=ZERO,
        error_code=ErrorCode.none,
        error_message="",  # not null, as in Apache Kafka
        resources=tuple(resources),
    )
