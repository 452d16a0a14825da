"""DeleteAcls (key 31), versions 1-3: remove the ACLs that filters match, with a result for each
filter.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from drumlin.broker.context import RequestContext
from drumlin.broker.rights.acl_elements import check_elements
from drumlin.broker.rights.acl_filters import AclFilter
from drumlin.broker.rights.acls import Operation, Rule, Target, acls_in, resource_of, rule_of
from drumlin.broker.rights.unsecured import no_acls
from drumlin.turns import give_way
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.messages import ZERO
from drumlin.wire.protocol.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)


async def handle(context: RequestContext, request: DeleteAclsRequest) -> DeleteAclsResponse:
    for each in request.filters:
        check_elements(
            each.resource_type_filter,
            each.pattern_type_filter,
            each.operation,
            each.permission_type,
        )
        await give_way()
    results = []
    for each in request.filters:
        try:
            results.append(_result(await _removed(context, each)))
        except KafkaError as error:
            results.append(
                DeleteAclsFilterResult(
                    error_code=error.code, error_message=error.message, matching_acls=()
                )
            )
        await give_way()
    return DeleteAclsResponse(throttle_time=ZERO, filter_results=tuple(results))


async def _removed(context: RequestContext, given: DeleteAclsFilter) -> list[tuple[Target, Rule]]:
    context.require_cluster(Operation.ALTER)
    if context.broker.authorizer is None:
        raise no_acls()
    wanted = AclFilter(
        given.resource_type_filter,
        given.resource_name_filter,
        given.pattern_type_filter,
        given.principal_filter,
        given.host_filter,
        given.operation,
        given.permission_type,
    )
    if (problem := wanted.problem) is not None:
        raise KafkaError(ErrorCode.invalid_request, problem)
    removed: list[tuple[Target, Rule]] = []
    for target, _ in list(acls_in(context.broker.metadata.image)):
        await give_way()
        if wanted.matches_target(target):
            found: list[Rule] = []
            alteration = partial(_without, wanted, found)
            await context.broker.metadata.alter_configs(resource_of(target), alteration)
            removed += [(target, rule) for rule in sorted(found)]
    return removed


def _without(
    wanted: AclFilter, found: list[Rule], stored: Mapping[str, str]
) -> Mapping[str, str | None]:
    """Remove the stored ACLs that the filter matches, and put them into `found`."""
    found.clear()
    rules = {key: rule_of(key) for key in stored}
    removed = {key: rule for key, rule in rules.items() if wanted.matches_rule(rule)}
    found += removed.values()
    return dict.fromkeys(removed)


def _result(removed: list[tuple[Target, Rule]]) -> DeleteAclsFilterResult:
    return DeleteAclsFilterResult(
        error_code=ErrorCode.none,
        error_message=None,
        matching_acls=tuple(
            DeleteAclsMatchingAcl(
                error_code=ErrorCode.none,
                error_message=None,
                resource_type=target.kind,
                resource_name=target.name,
                pattern_type=target.pattern,
                principal=rule.principal,
                host=rule.host,
                operation=rule.operation,
                permission_type=rule.permission,
            )
            for target, rule in removed
        ),
    )
