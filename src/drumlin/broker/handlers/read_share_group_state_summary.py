"""ReadShareGroupStateSummary (key 87), versions 0-1: the start offsets of a share group in
partitions.

The leader epoch of the request is not checked. Version 1 adds the number of complete records
(KIP-1226).
"""

from __future__ import annotations

from functools import partial
from typing import Final
from uuid import UUID

from drumlin.broker.context import RequestContext
from drumlin.broker.several_apis.share_state_requests import answer_partitions
from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.protocol.read_share_group_state_summary import (
    PartitionData,
    PartitionResult,
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    ReadStateSummaryResult,
)

_refused: Final = partial(PartitionResult, state_epoch=0, leader_epoch=0, start_offset=0)


async def handle(
    context: RequestContext, request: ReadShareGroupStateSummaryRequest
) -> ReadShareGroupStateSummaryResponse:
    share_state = context.broker.share_state

    async def read(topic_id: UUID, wanted: PartitionData) -> PartitionResult:
        state = await share_state.summary(request.group_id, topic_id, wanted.partition)
        return PartitionResult(
            partition=wanted.partition,
            error_code=ErrorCode.none,
            state_epoch=state.state_epoch,
            leader_epoch=state.leader_epoch,
            start_offset=state.start_offset,
            delivery_complete_count=state.delivery_complete_count,
        )

    results = await answer_partitions(context, request, read, _refused, ReadStateSummaryResult)
    return ReadShareGroupStateSummaryResponse(results=results)
