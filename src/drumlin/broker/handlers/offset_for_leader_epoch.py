"""OffsetForLeaderEpoch (key 23), versions 2-4: the end offset of a leader epoch (KIP-320).

A consumer or follower that has read from an older leader learns the first offset at which its
records may differ. (-1, -1) means that this broker does not know the epoch.
"""

from __future__ import annotations

from drumlin.broker.context import RequestContext
from drumlin.broker.rights.acls import Kind, Operation
from drumlin.turns import give_way
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.messages import ZERO
from drumlin.wire.protocol.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


async def handle(
    context: RequestContext, request: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
    topics = []
    may_all = context.sees_cluster(Operation.CLUSTER_ACTION)
    for topic in request.topics:
        partitions = []
        may = may_all or context.may(Operation.DESCRIBE, Kind.TOPIC, topic.topic)
        for wanted in topic.partitions:
            partitions.append(_answer(context, topic.topic, wanted) if may else _denied(wanted))
            await give_way()
        topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=tuple(partitions)))
        await give_way()
    return OffsetForLeaderEpochResponse(throttle_time=ZERO, topics=tuple(topics))


def _answer(
    context: RequestContext, topic: str, wanted: OffsetForLeaderPartition
) -> EpochEndOffset:
    epoch, end_offset, code = -1, -1, ErrorCode.none
    try:
        known_epoch = wanted.current_leader_epoch
        partition = context.broker.partitions.get(topic, wanted.partition, known_epoch)
        partition.check_readable()
        epoch, end_offset = partition.end_offset_for_epoch(wanted.leader_epoch)
    except KafkaError as error:
        code = error.code
    return EpochEndOffset(
        error_code=code,
        partition=wanted.partition,
        leader_epoch=epoch,
        end_offset=end_offset,
    )


def _denied(wanted: OffsetForLeaderPartition) -> EpochEndOffset:
    return EpochEndOffset(
        error_code=ErrorCode.topic_authorization_failed, partition=wanted.partition
    )
