"""InitializeShareGroupState (key 83), version 0: a new state for partitions of a share group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from drumlin.broker.context import RequestContext
from drumlin.broker.share_state_requests import answer_partitions
from drumlin.wire.messages import Shape

if TYPE_CHECKING:
    from kio.schema.initialize_share_group_state.v0.request import (
        InitializeShareGroupStateRequest,
        PartitionData,
    )

_NAMES: Final = ("InitializeShareGroupStateResponse", "InitializeStateResult")


async def handle(
    context: RequestContext, request: InitializeShareGroupStateRequest, shape: Shape
) -> Any:
    share_state = context.broker.share_state

    async def initialize(topic_id: UUID, wanted: PartitionData) -> Mapping[str, Any]:
        await share_state.initialize(
            request.group_id, topic_id, wanted.partition, wanted.state_epoch, wanted.start_offset
        )
        return {}

    return await answer_partitions(request, shape, _NAMES, {}, initialize)
