"""DeleteShareGroupState (key 86), version 0: delete the state of a share group's partitions."""

from __future__ import annotations

from uuid import UUID

from drumlin.broker.context import RequestContext
from drumlin.broker.several_apis.share_state_requests import answer_partitions
from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.protocol.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
    DeleteStateResult,
    PartitionData,
    PartitionResult,
)


async def handle(
    context: RequestContext, request: DeleteShareGroupStateRequest
) -> DeleteShareGroupStateResponse:
    share_state = context.broker.share_state

    async def delete(topic_id: UUID, wanted: PartitionData) -> PartitionResult:
        await share_state.delete(request.group_id, topic_id, wanted.partition)
        return PartitionResult(partition=wanted.partition, error_code=ErrorCode.none)

    results = await answer_partitions(context, request, delete, PartitionResult, DeleteStateResult)
    return DeleteShareGroupStateResponse(results=results)
