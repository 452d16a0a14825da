"""WriteShareGroupState (key 85), versions 0-1: the leader of partitions writes what has changed.

Version 1 adds how many records are done with (KIP-1226).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from drumlin.broker.context import RequestContext
from drumlin.broker.share_state_requests import answer_partitions
from drumlin.coordination.shares.state import UNKNOWN_COUNT, ShareState, StateBatch
from drumlin.wire.messages import Shape

_NAMES: Final = ("WriteShareGroupStateResponse", "WriteStateResult")


async def handle(context: RequestContext, request: Any, shape: Shape) -> Any:
    share_state = context.broker.share_state

    async def write(topic_id: UUID, wanted: Any) -> Mapping[str, Any]:
        state = ShareState(
            wanted.state_epoch,
            wanted.leader_epoch,
            wanted.start_offset,
            getattr(wanted, "delivery_complete_count", UNKNOWN_COUNT),
            tuple(_batch(each) for each in wanted.state_batches),
        )
        await share_state.write(request.group_id, topic_id, wanted.partition, state)
        return {}

    return await answer_partitions(request, shape, _NAMES, {}, write)


def _batch(each: Any) -> StateBatch:
    return StateBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
