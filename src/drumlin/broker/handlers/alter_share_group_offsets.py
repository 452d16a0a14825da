"""AlterShareGroupOffsets (key 91), version 0: set start offsets of a share group without members.

Records from the new start offset on are delivered again, even if they were delivered before.
"""

from __future__ import annotations

from collections.abc import Iterable

from drumlin.broker.context import RequestContext
from drumlin.broker.rights.acls import Kind, Operation
from drumlin.broker.rights.denials import denied
from drumlin.coordination.groups.share.messages import TopicOutcome
from drumlin.turns import give_way
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.messages import ZERO
from drumlin.wire.protocol.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)


async def handle(
    context: RequestContext, request: AlterShareGroupOffsetsRequest
) -> AlterShareGroupOffsetsResponse:
    code, message = ErrorCode.none, None
    responses: tuple[AlterShareGroupOffsetsResponseTopic, ...] = ()
    try:
        context.require(Operation.READ, Kind.GROUP, request.group_id)
        wanted = await _wanted(request)
        refused = await _refused(context, wanted)
        outcomes = await context.broker.share_groups.alter_offsets(
            request.group_id, list(wanted.items())
        )
        responses = await _topics([*refused, *outcomes])
    except KafkaError as error:
        code, message = error.code, error.message or error.code.name
    return AlterShareGroupOffsetsResponse(
        throttle_time=ZERO,
        error_code=code,
        error_message=message,
        responses=responses,
    )


async def _wanted(request: AlterShareGroupOffsetsRequest) -> dict[str, dict[int, int]]:
    """Start offsets by topic and partition; a topic may be named twice."""
    wanted: dict[str, dict[int, int]] = {}
    for topic in request.topics:
        of_topic = wanted.setdefault(topic.topic_name, {})
        await give_way()
        for each in topic.partitions:
            of_topic[each.partition_index] = each.start_offset
            await give_way()
    return wanted


async def _refused(
    context: RequestContext, wanted: dict[str, dict[int, int]]
) -> list[TopicOutcome]:
    """The outcome for topics that the client may not read; they are taken out of `wanted`."""
    refused = []
    for name in list(wanted):
        if not context.may(Operation.READ, Kind.TOPIC, name):
            partitions = dict.fromkeys(wanted.pop(name), denied(Kind.TOPIC))
            refused.append(TopicOutcome(name, None, partitions))
        await give_way()
    return refused


async def _topics(
    outcomes: Iterable[TopicOutcome],
) -> tuple[AlterShareGroupOffsetsResponseTopic, ...]:
    topics = []
    for outcome in outcomes:
        partitions = []
        for index, error in outcome.partitions.items():
            partitions.append(
                AlterShareGroupOffsetsResponsePartition(
                    partition_index=index,
                    error_code=ErrorCode.none if error is None else error.code,
                    error_message=None if error is None else error.message or error.code.name,
                )
            )
            await give_way()
        topics.append(
            AlterShareGroupOffsetsResponseTopic(
                topic_name=outcome.name,
                topic_id=outcome.topic_id,
                partitions=tuple(partitions),
            )
        )
        await give_way()
    return tuple(topics)
