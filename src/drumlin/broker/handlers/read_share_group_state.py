"""ReadShareGroupState (key 84), version 0: a new leader of partitions takes over their state.

This fences leaders with an older leader epoch.
"""

from __future__ import annotations

from functools import partial
from typing import Final
from uuid import UUID

from drumlin.broker.context import RequestContext
from drumlin.broker.several_apis.share_state_requests import answer_partitions
from drumlin.metadata.rules.claims import may_lead
from drumlin.turns import give_way
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.protocol.read_share_group_state import (
    PartitionData,
    PartitionResult,
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
    ReadStateResult,
    StateBatch,
)

_refused: Final = partial(PartitionResult, state_epoch=0, start_offset=0, state_batches=())


async def handle(
    context: RequestContext, request: ReadShareGroupStateRequest
) -> ReadShareGroupStateResponse:
    share_state = context.broker.share_state
    image = context.broker.metadata.image

    async def read(topic_id: UUID, wanted: PartitionData) -> PartitionResult:
        if not may_lead(image, topic_id, wanted.partition, wanted.leader_epoch):
            # Once stored, this epoch would fence every leader for ever.
            raise KafkaError(ErrorCode.coordinator_load_in_progress)
        state = await share_state.read(
            request.group_id, topic_id, wanted.partition, wanted.leader_epoch
        )
        batches = []
        for batch in state.batches:  # there may be thousands
            batches.append(StateBatch(**batch._asdict()))
            await give_way()
        return PartitionResult(
            partition=wanted.partition,
            error_code=ErrorCode.none,
            state_epoch=state.state_epoch,
            start_offset=state.start_offset,
            state_batches=tuple(batches),
        )

    results = await answer_partitions(context, request, read, _refused, ReadStateResult)
    return ReadShareGroupStateResponse(results=results)
