"""WriteShareGroupState (key 85), versions 0-1: a partition leader writes changes of the state.

Version 1 adds the number of complete records (KIP-1226).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from drumlin.broker.context import RequestContext
from drumlin.broker.several_apis.share_state_requests import answer_partitions
from drumlin.coordination.share.state.state import UNKNOWN_COUNT, ShareState, StateBatch
from drumlin.turns import give_way
from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.protocol.write_share_group_state import (
    PartitionData,
    PartitionResult,
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
    WriteStateResult,
)
from drumlin.wire.protocol.write_share_group_state import StateBatch as StateBatchData

#: Batches that are converted between two chances to give way.
_AT_ONCE: Final = 100


async def handle(
    context: RequestContext, request: WriteShareGroupStateRequest
) -> WriteShareGroupStateResponse:
    share_state = context.broker.share_state

    async def write(topic_id: UUID, wanted: PartitionData) -> PartitionResult:
        state = ShareState(
            wanted.state_epoch,
            wanted.leader_epoch,
            wanted.start_offset,
            getattr(wanted, "delivery_complete_count", UNKNOWN_COUNT),
            await _batches(wanted.state_batches),
        )
        await share_state.write(request.group_id, topic_id, wanted.partition, state)
        return PartitionResult(partition=wanted.partition, error_code=ErrorCode.none)

    results = await answer_partitions(context, request, write, PartitionResult, WriteStateResult)
    return WriteShareGroupStateResponse(results=results)


async def _batches(given: Sequence[StateBatchData]) -> tuple[StateBatch, ...]:
    """The batches in a request; there may be tens of thousands."""
    batches: list[StateBatch] = []
    for first in range(0, len(given), _AT_ONCE):
        batches += map(_batch, given[first : first + _AT_ONCE])
        await give_way()
    return tuple(batches)


def _batch(each: StateBatchData) -> StateBatch:
    return StateBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
