"""CreateAcls (key 30), versions 1-3: add ACLs, each with its own result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from drumlin.broker.context import RequestContext
from drumlin.broker.rights.acl_elements import check_elements
from drumlin.broker.rights.acls import (
    InvalidAcl,
    Kind,
    Operation,
    Rule,
    Target,
    checked_acl,
    key_of,
    resource_of,
)
from drumlin.broker.rights.denials import denied
from drumlin.broker.rights.unsecured import no_acls
from drumlin.turns import give_way
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.messages import ZERO
from drumlin.wire.protocol.create_acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)


async def handle(context: RequestContext, request: CreateAclsRequest) -> CreateAclsResponse:
    for each in request.creations:
        check_elements(
            each.resource_type, each.resource_pattern_type, each.operation, each.permission_type
        )
        await give_way()
    may = context.may_cluster(Operation.ALTER)
    outcomes: list[KafkaError | None] = []
    wanted: dict[Target, list[tuple[int, Rule]]] = {}
    for number, each in enumerate(request.creations):
        outcomes.append(None if may else denied(Kind.CLUSTER))
        if not may:
            continue
        try:
            target, rule = _checked(context, each)
            wanted.setdefault(target, []).append((number, rule))
        except KafkaError as refusal:
            outcomes[number] = refusal.with_traceback(None)
        await give_way()
    for target, rules in wanted.items():
        alteration = partial(_added, [rule for _, rule in rules])
        try:
            await context.broker.metadata.alter_configs(resource_of(target), alteration)
        except KafkaError as error:
            for number, _ in rules:
                outcomes[number] = error.with_traceback(None)
    results = tuple(
        AclCreationResult(
            error_code=each.code if each else ErrorCode.none,
            error_message=each.message if each else "",  # not null, as in Apache Kafka
        )
        for each in outcomes
    )
    return CreateAclsResponse(throttle_time=ZERO, results=results)


def _added(rules: Sequence[Rule], _: Mapping[str, str]) -> Mapping[str, str | None]:
    return {key_of(rule): "" for rule in rules}


def _checked(context: RequestContext, creation: AclCreation) -> tuple[Target, Rule]:
    if context.broker.authorizer is None:
        raise no_acls()
    try:
        return checked_acl(
            creation.resource_type,
            creation.resource_pattern_type,
            creation.resource_name,
            creation.principal,
            creation.host,
            creation.operation,
            creation.permission_type,
        )
    except InvalidAcl as error:
        raise KafkaError(ErrorCode.invalid_request, str(error)) from None
