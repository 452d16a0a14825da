"""ListPartitionReassignments (key 46), version 0: partitions that are being moved (KIP-455).

A null list of topics means all. Partitions that are not reassigned, or do not exist, are left out.
"""

from __future__ import annotations

from collections.abc import Iterable

from drumlin.broker.context import RequestContext
from drumlin.broker.rights.acls import Operation
from drumlin.metadata.image import PartitionState, TopicState
from drumlin.turns import give_way
from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.messages import ZERO
from drumlin.wire.protocol.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)


async def handle(
    context: RequestContext, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    context.require_cluster(Operation.DESCRIBE)
    topics = context.broker.metadata.image.topics
    told: list[OngoingTopicReassignment] = []
    if request.topics is None:
        for topic in list(topics.values()):
            await _tell(told, topic, topic.partitions)
    else:
        for wanted in request.topics:
            known = topics.get(wanted.name)
            await give_way()
            if known is not None:
                states = (known.partition(index) for index in wanted.partition_indexes)
                await _tell(told, known, states)
    return ListPartitionReassignmentsResponse(
        throttle_time=ZERO,
        error_code=ErrorCode.none,
        error_message=None,
        topics=tuple(told),
    )


async def _tell(
    told: list[OngoingTopicReassignment],
    topic: TopicState,
    states: Iterable[PartitionState | None],
) -> None:
    partitions: list[OngoingPartitionReassignment] = []
    for each in states:
        if each is not None and each.is_reassigned:
            partitions.append(
                OngoingPartitionReassignment(
                    partition_index=each.index,
                    replicas=each.replicas,
                    adding_replicas=each.adding,
                    removing_replicas=each.removing,
                )
            )
        await give_way()
    if partitions:
        ongoing = OngoingTopicReassignment(name=topic.name, partitions=tuple(partitions))
        told.append(ongoing)
