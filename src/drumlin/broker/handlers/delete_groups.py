"""DeleteGroups (key 42), versions 0-2: delete groups without members, and their offsets.

A share group loses its start offsets, too. A group named twice is deleted, and answered, once;
those that may not be deleted come last.
"""

from __future__ import annotations

from drumlin.broker.context import RequestContext
from drumlin.broker.rights.acls import Kind, Operation
from drumlin.broker.rights.denials import DENIED
from drumlin.distinct import counted
from drumlin.turns import give_way
from drumlin.wire.error_codes import KafkaError
from drumlin.wire.messages import ZERO
from drumlin.wire.protocol.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)


async def handle(context: RequestContext, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
    broker = context.broker
    results, denied = [], []
    for group_id in await counted(request.groups_names):
        await give_way()
        if not context.may(Operation.DELETE, Kind.GROUP, group_id):
            code = DENIED[Kind.GROUP]
            denied.append(DeletableGroupResult(group_id=group_id, error_code=code))
            continue
        try:
            if broker.share_groups.is_share_group(group_id):
                code = await broker.share_groups.delete(group_id)
            else:
                code = await (await broker.groups.delete(group_id))
        except KafkaError as error:
            code = error.code
        results.append(DeletableGroupResult(group_id=group_id, error_code=code))
    return DeleteGroupsResponse(throttle_time=ZERO, results=(*results, *denied))
