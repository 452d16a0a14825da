"""DeleteShareGroupOffsets (key 92), version 0: delete the offsets of a share group in topics."""

from __future__ import annotations

from drumlin.broker.context import RequestContext
from drumlin.broker.rights.acls import Kind, Operation
from drumlin.broker.rights.denials import denied
from drumlin.coordination.groups.share.messages import Deleted
from drumlin.turns import give_way
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.messages import ZERO
from drumlin.wire.protocol.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)


async def handle(
    context: RequestContext, request: DeleteShareGroupOffsetsRequest
) -> DeleteShareGroupOffsetsResponse:
    code, message = ErrorCode.none, None
    responses: tuple[DeleteShareGroupOffsetsResponseTopic, ...] = ()
    try:
        context.require(Operation.DELETE, Kind.GROUP, request.group_id)
        names: list[str] = []
        refused: Deleted = {}
        for topic in request.topics:
            if context.may(Operation.READ, Kind.TOPIC, topic.topic_name):
                names.append(topic.topic_name)
            else:
                refused[topic.topic_name] = None, denied(Kind.TOPIC)
            await give_way()
        deleted = await context.broker.share_groups.delete_offsets(request.group_id, names)
        responses = await _told(refused | deleted)
    except KafkaError as error:
        code, message = error.code, error.message or error.code.name
    return DeleteShareGroupOffsetsResponse(
        throttle_time=ZERO,
        error_code=code,
        error_message=message,
        responses=responses,
    )


async def _told(deleted: Deleted) -> tuple[DeleteShareGroupOffsetsResponseTopic, ...]:
    topics = []
    for name, (topic_id, error) in deleted.items():
        topics.append(
            DeleteShareGroupOffsetsResponseTopic(
                topic_name=name,
                topic_id=topic_id,
                error_code=ErrorCode.none if error is None else error.code,
                error_message=None if error is None else error.message or error.code.name,
            )
        )
        await give_way()
    return tuple(topics)
