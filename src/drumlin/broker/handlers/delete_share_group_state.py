"""DeleteShareGroupState (key 86), version 0: partitions of a share group lose their state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from drumlin.broker.context import RequestContext
from drumlin.broker.share_state_requests import answer_partitions
from drumlin.wire.messages import Shape

if TYPE_CHECKING:
    from kio.schema.delete_share_group_state.v0.request import (
        DeleteShareGroupStateRequest,
        PartitionData,
    )

_NAMES: Final = ("DeleteShareGroupStateResponse", "DeleteStateResult")


async def handle(
    context: RequestContext, request: DeleteShareGroupStateRequest, shape: Shape
) -> Any:
    share_state = context.broker.share_state

    async def delete(topic_id: UUID, wanted: PartitionData) -> Mapping[str, Any]:
        await share_state.delete(request.group_id, topic_id, wanted.partition)
        return {}

    return await answer_partitions(request, shape, _NAMES, {}, delete)
