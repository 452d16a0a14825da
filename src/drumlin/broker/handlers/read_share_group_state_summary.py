"""ReadShareGroupStateSummary (key 87), versions 0-1: how far a share group is in partitions.

The leader epoch of the request is not checked. Version 1 adds how many records are complete
(KIP-1226).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from drumlin.broker.context import RequestContext
from drumlin.broker.share_state_requests import answer_partitions
from drumlin.coordination.share.state.state import UNKNOWN_COUNT
from drumlin.wire.messages import Shape

if TYPE_CHECKING:
    from kio.schema.read_share_group_state_summary.v1.request import (
        PartitionData,
        ReadShareGroupStateSummaryRequest,
    )

_NAMES: Final = ("ReadShareGroupStateSummaryResponse", "ReadStateSummaryResult")
_BLANK: Final = {
    "state_epoch": 0,
    "leader_epoch": 0,
    "start_offset": 0,
    "delivery_complete_count": UNKNOWN_COUNT,
}


async def handle(
    context: RequestContext, request: ReadShareGroupStateSummaryRequest, shape: Shape
) -> Any:
    share_state = context.broker.share_state

    async def read(topic_id: UUID, wanted: PartitionData) -> Mapping[str, Any]:
        state = await share_state.summary(request.group_id, topic_id, wanted.partition)
        return {
            "state_epoch": state.state_epoch,
            "leader_epoch": state.leader_epoch,
            "start_offset": state.start_offset,
            "delivery_complete_count": state.delivery_complete_count,
        }

    return await answer_partitions(request, shape, _NAMES, _BLANK, read)
