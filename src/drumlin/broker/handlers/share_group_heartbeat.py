"""ShareGroupHeartbeat (key 76), version 1: a member joins a share group, stays in it, or leaves it.

Epoch 0 means joining, -1 leaving. A member chooses its own id.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from drumlin.broker.context import RequestContext
from drumlin.broker.rights.acls import Operation
from drumlin.broker.several_apis.group_rights import check_subscribed, require_group
from drumlin.coordination.groups.every_kind.subscription_limit import check_named
from drumlin.coordination.groups.share.messages import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    ShareHeartbeat,
    ShareHeartbeatAnswer,
)
from drumlin.coordination.groups.share.records import Assignment
from drumlin.turns import give_way
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.messages import ZERO
from drumlin.wire.protocol.share_group_heartbeat import Assignment as ToldAssignment
from drumlin.wire.protocol.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)

_NOTHING: Final = ShareHeartbeatAnswer("", 0)


async def handle(
    context: RequestContext, request: ShareGroupHeartbeatRequest
) -> ShareGroupHeartbeatResponse:
    topics = request.subscribed_topic_names
    try:
        require_group(context, Operation.READ, request.group_id)
        if not request.member_id:
            raise KafkaError(ErrorCode.invalid_request)
        check_named(topics)
        await check_subscribed(context, topics)
        _check(request)
        heartbeat = ShareHeartbeat(
            request.member_id,
            request.member_epoch,
            request.rack_id,
            context.client_id or "",
            context.client_host,
            None if topics is None else tuple(topics),
        )
        answer = await context.broker.share_groups.heartbeat(request.group_id, heartbeat)
    except KafkaError as error:
        return await _answered(_NOTHING, error)
    return await _answered(answer, None)


def _check(request: ShareGroupHeartbeatRequest) -> None:
    problem = None
    if not request.member_id.strip():
        problem = "a member needs an id"
    elif not request.group_id.strip():
        problem = "a group needs an id"
    elif request.rack_id is not None and not request.rack_id.strip():
        problem = "a rack must have a name"
    elif request.member_epoch == JOIN_EPOCH:
        if not request.subscribed_topic_names:
            problem = "a member that joins must name its topics"
    elif request.member_epoch < LEAVE_EPOCH:
        problem = f"{request.member_epoch} is no epoch of a member"
    if problem is not None:
        raise KafkaError(ErrorCode.invalid_request, problem)


async def _answered(
    answer: ShareHeartbeatAnswer, error: KafkaError | None
) -> ShareGroupHeartbeatResponse:
    assignment = None
    if answer.assignment is not None:
        assignment = await _assignment(answer.assignment)
    return ShareGroupHeartbeatResponse(
        throttle_time=ZERO,
        error_code=ErrorCode.none if error is None else error.code,
        error_message=None if error is None else error.message,
        member_id=answer.member_id or None,
        member_epoch=answer.member_epoch,
        heartbeat_interval=timedelta(milliseconds=answer.heartbeat_interval_ms),
        assignment=assignment,
    )


async def _assignment(assignment: Assignment) -> ToldAssignment:
    topics = []
    for topic_id, partitions in assignment.items():
        topics.append(TopicPartitions(topic_id=topic_id, partitions=partitions))
        await give_way()
    return ToldAssignment(topic_partitions=tuple(topics))
