"""AlterShareGroupOffsets (key 91), version 0: a share group without members begins anew somewhere.

What was delivered before from there on is delivered again.
"""

from __future__ import annotations

from typing import Any

from drumlin.broker.context import RequestContext
from drumlin.coordination.groups.share.coordinator import TopicOutcome
from drumlin.wire.errors import ErrorCode, KafkaError
from drumlin.wire.messages import ZERO, Shape


async def handle(context: RequestContext, request: Any, shape: Shape) -> Any:
    wanted = [
        (topic.topic_name, {each.partition_index: each.start_offset for each in topic.partitions})
        for topic in request.topics
    ]
    code, message = ErrorCode.none, None
    responses: tuple[Any, ...] = ()
    try:
        outcomes = await context.broker.share_groups.alter_offsets(request.group_id, wanted)
        responses = tuple(_topic(shape, each) for each in outcomes)
    except KafkaError as error:
        code, message = error.code, error.message or error.code.name
    return shape(
        "AlterShareGroupOffsetsResponse",
        throttle_time=ZERO,
        error_code=code,
        error_message=message,
        responses=responses,
    )


def _topic(shape: Shape, outcome: TopicOutcome) -> Any:
    return shape(
        "AlterShareGroupOffsetsResponseTopic",
        topic_name=outcome.name,
        topic_id=outcome.topic_id,
        partitions=tuple(
            shape(
                "AlterShareGroupOffsetsResponsePartition",
                partition_index=index,
                error_code=ErrorCode.none if error is None else error.code,
                error_message=None if error is None else error.message or error.code.name,
            )
            for index, error in outcome.partitions.items()
        ),
    )
