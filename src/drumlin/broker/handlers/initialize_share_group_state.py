"""InitializeShareGroupState (key 83), version 0: a new state for partitions of a share group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from drumlin.broker.context import RequestContext
from drumlin.broker.share_state_requests import answer_partitions
from drumlin.wire.messages import Shape

_NAMES: Final = ("InitializeShareGroupStateResponse", "InitializeStateResult")


async def handle(context: RequestContext, request: Any, shape: Shape) -> Any:
    share_state = context.broker.share_state

    async def initialize(topic_id: UUID, wanted: Any) -> Mapping[str, Any]:
        await share_state.initialize(
            request.group_id, topic_id, wanted.partition, wanted.state_epoch, wanted.start_offset
        )
        return {}

    return await answer_partitions(request, shape, _NAMES, {}, initialize)
