"""AlterPartitionReassignments (key 45), versions 0-1: move partitions to other brokers (KIP-455).

Null instead of replicas cancels a reassignment. The request is answered when the reassignments have
begun, with a code for each partition; ListPartitionReassignments shows those in progress. Every
broker serves it. A request whose timeout is zero or less is answered REQUEST_TIMED_OUT.

Version 1 can refuse to change the number of replicas (KIP-860).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from drumlin.broker.context import RequestContext
from drumlin.broker.rights.acls import Kind, Operation
from drumlin.broker.rights.denials import denied
from drumlin.metadata.image import PartitionId, PartitionState
from drumlin.turns import give_way
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.messages import ZERO
from drumlin.wire.protocol.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopic,
    ReassignableTopicResponse,
)

#: Partitions of a topic that are handled between two chances to give way.
_TOGETHER: Final = 500


async def handle(
    context: RequestContext, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    told = []
    may_change_factor = request.allow_replication_factor_change
    refusal = _refusal(context)
    if refusal is None and request.timeout <= ZERO:
        refusal = KafkaError(ErrorCode.request_timed_out)
    for topic in request.topics:
        results: list[ReassignablePartitionResponse] = []
        left = iter(topic.partitions)
        while some := list(islice(left, _TOGETHER)):
            refusal = _refusal(context) or refusal  # the right may have been revoked
            if refusal is None:
                results += await _alter(context, topic, some, may_change_factor)
            else:
                results += (_result(each.partition_index, refusal) for each in some)
            await give_way()
        answer = ReassignableTopicResponse(name=topic.name, partitions=tuple(results))
        told.append(answer)
        await give_way()
    return AlterPartitionReassignmentsResponse(
        throttle_time=ZERO,
        allow_replication_factor_change=may_change_factor,
        error_code=ErrorCode.none if refusal is None else refusal.code,
        error_message=None if refusal is None else refusal.message,
        responses=tuple(told),
    )


def _refusal(context: RequestContext) -> KafkaError | None:
    return None if context.may_cluster(Operation.ALTER) else denied(Kind.CLUSTER)


async def _alter(
    context: RequestContext,
    topic: ReassignableTopic,
    partitions: Sequence[ReassignablePartition],
    may_change_factor: bool,
) -> Iterator[ReassignablePartitionResponse]:
    metadata = context.broker.metadata
    known = metadata.image.topics.get(topic.name)
    outcomes: dict[int, PartitionState | KafkaError] = {}
    if known is not None:
        wanted = {PartitionId(known.topic_id, each.partition_index): each for each in partitions}
        targets = {key: each.replicas for key, each in wanted.items()}
        found = await metadata.reassign(targets, may_change_factor=may_change_factor)
        outcomes = {key.partition: outcome for key, outcome in found.items()}
    unknown = KafkaError(ErrorCode.unknown_topic_id)  # `_result` translates it if necessary
    return (
        _result(each.partition_index, outcomes.get(each.partition_index, unknown))
        for each in partitions
    )


def _result(index: int, outcome: PartitionState | KafkaError) -> ReassignablePartitionResponse:
    error = outcome if isinstance(outcome, KafkaError) else None
    if error is not None and error.code is ErrorCode.unknown_topic_id:
        message = f"there is no partition {index} of such a topic"
        error = KafkaError(ErrorCode.unknown_topic_or_partition, message)
    return ReassignablePartitionResponse(
        partition_index=index,
        error_code=error.code if error else ErrorCode.none,
        error_message=error.message if error else None,
    )
