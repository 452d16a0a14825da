"""InitializeShareGroupState (key 83), version 0: a new state for partitions of a share group."""

from __future__ import annotations

from uuid import UUID

from drumlin.broker.context import RequestContext
from drumlin.broker.several_apis.share_state_requests import answer_partitions
from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.protocol.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
    InitializeStateResult,
    PartitionData,
    PartitionResult,
)


async def handle(
    context: RequestContext, request: InitializeShareGroupStateRequest
) -> InitializeShareGroupStateResponse:
    share_state = context.broker.share_state

    async def initialize(topic_id: UUID, wanted: PartitionData) -> PartitionResult:
        await share_state.initialize(
            request.group_id, topic_id, wanted.partition, wanted.state_epoch, wanted.start_offset
        )
        return PartitionResult(partition=wanted.partition, error_code=ErrorCode.none)

    results = await answer_partitions(
        context, request, initialize, PartitionResult, InitializeStateResult
    )
    return InitializeShareGroupStateResponse(results=results)
