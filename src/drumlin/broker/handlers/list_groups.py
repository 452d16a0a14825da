"""ListGroups (key 16), versions 0-5: the groups that this broker coordinates.

From version 4 the request can filter by state (KIP-518), from 5 by type (KIP-848). States and types
match in any case; unknown ones match no group.
"""

from __future__ import annotations

from drumlin.broker.context import RequestContext
from drumlin.broker.rights.acls import Kind, Operation
from drumlin.distinct import counted
from drumlin.turns import give_way
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.messages import ZERO
from drumlin.wire.protocol.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse


async def handle(context: RequestContext, request: ListGroupsRequest) -> ListGroupsResponse:
    states = await counted(each.strip().lower() for each in request.states_filter)
    types = await counted(each.lower() for each in request.types_filter)
    code, groups = ErrorCode.none, []
    try:
        groups = context.broker.groups.groups()
    except KafkaError as error:
        code = error.code
    listed = []
    may_see_all = context.sees_cluster(Operation.DESCRIBE)
    for group in groups:
        await give_way()
        if not (may_see_all or context.sees(Operation.DESCRIBE, Kind.GROUP, group.group_id)):
            continue
        kind, state = group.kind.value.lower(), group.state_name
        if (not types or kind in types) and (not states or state.lower() in states):
            listed.append(
                ListedGroup(
                    group_id=group.group_id,
                    protocol_type=group.protocol_type or "",
                    group_state=state,
                    group_type=kind,
                )
            )
    return ListGroupsResponse(throttle_time=ZERO, error_code=code, groups=tuple(listed))
