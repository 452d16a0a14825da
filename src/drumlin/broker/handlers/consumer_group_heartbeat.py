"""ConsumerGroupHeartbeat (key 68), versions 0-1: a member joins, stays and leaves (KIP-848).

- A member joins with epoch 0, stays with its epoch, and leaves with -1, or temporarily, as a static
  member, with -2.
- A null field has not changed. From version 1 members choose their own ids, and can subscribe by
  a regular expression.
- Answered when all changes are in the log: the next request of the connection may start meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Final, TypeAlias
from uuid import UUID

from drumlin.broker.context import RequestContext
from drumlin.broker.loop.later import Later, waiting
from drumlin.broker.parts.parts import BrokerData
from drumlin.broker.rights.acls import Operation
from drumlin.broker.several_apis.group_rights import check_subscribed, require_group
from drumlin.coordination.groups.consumer.member import Partitions
from drumlin.coordination.groups.consumer.messages import HeartbeatAnswer, HeartbeatRequest
from drumlin.coordination.groups.every_kind.subscription_limit import check_named
from drumlin.coordination.shards.pending_answer import Pending
from drumlin.turns import give_way
from drumlin.wire.by_hand.heartbeat_response import unchanged_response
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.messages import ZERO, EncodedBody
from drumlin.wire.protocol.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

_Answer: TypeAlias = "ConsumerGroupHeartbeatResponse | EncodedBody"

_PROTOCOL: Final = "consumer"
_MILLISECOND: Final = timedelta(milliseconds=1)
_NOT_GIVEN_MS: Final = -1
_MEMBER_MAKES_ID: Final = 1
#: Owned partitions that are read without giving way.
_AT_ONCE_MAX: Final = 500
#: More partitions than any member owns. The set grows and is freed in one turn, so it is limited.
_OWNED_MAX: Final = 50_000


async def handle(
    context: RequestContext, request: ConsumerGroupHeartbeatRequest
) -> _Answer | Later[_Answer]:
    topics = request.topic_partitions
    try:
        if not _is_served(context.broker):
            raise KafkaError(ErrorCode.unsupported_version)
        require_group(context, Operation.READ, request.group_id)
        check_named(request.subscribed_topic_names)
        await check_subscribed(context, request.subscribed_topic_names)
        owned = None if topics is None else await _owned(topics)
        heartbeat = _read(request, context, owned)
        written = context.broker.groups.consumer_heartbeat(request.group_id, heartbeat)
    except KafkaError as error:
        return _refusal(error)
    return waiting(_respond(written))


def _is_served(broker: BrokerData) -> bool:
    return _PROTOCOL in broker.config.group_coordinator_rebalance_protocols


def _read(
    request: ConsumerGroupHeartbeatRequest, context: RequestContext, owned: Partitions | None
) -> HeartbeatRequest:
    rebalance_timeout_ms = request.rebalance_timeout // _MILLISECOND
    topics = request.subscribed_topic_names
    given = rebalance_timeout_ms != _NOT_GIVEN_MS
    return HeartbeatRequest(
        member_id=request.member_id,
        epoch=request.member_epoch,
        client_id=context.client_id or "",
        client_host=context.client_host,
        group_instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=rebalance_timeout_ms if given else None,
        topics=None if topics is None else frozenset(topics),
        regex=request.subscribed_topic_regex,
        assignor=request.server_assignor,
        owned=owned,
        sees=context.topic_right(Operation.DESCRIBE, is_named=False),
        must_have_member_id=context.version >= _MEMBER_MAKES_ID,
    )


async def _owned(topics: Sequence[TopicPartitions]) -> Partitions:
    """
    Raises:
        KafkaError: INVALID_REQUEST.
    """
    left = _OWNED_MAX
    owned: dict[UUID, set[int]] = {}
    for topic in topics:
        left -= len(topic.partitions)
        if left < 0:
            message = f"a member can own {_OWNED_MAX} partitions"
            raise KafkaError(ErrorCode.invalid_request, message)
        if topic.topic_id is not None and topic.partitions:
            # A topic may be named twice: partitions missed here would be assigned to other members.
            indexes = owned.setdefault(topic.topic_id, set())
            for first in range(0, len(topic.partitions), _AT_ONCE_MAX):
                indexes.update(topic.partitions[first : first + _AT_ONCE_MAX])
                await give_way()
        await give_way()
    partitions: dict[UUID, frozenset[int]] = {}
    while owned:
        topic_id, indexes = owned.popitem()
        partitions[topic_id] = frozenset(indexes)
        await give_way()
    return partitions


async def _respond(written: Pending[HeartbeatAnswer]) -> _Answer:
    try:
        return await _response(await written)
    except KafkaError as error:
        return _refusal(error)


async def _response(answer: HeartbeatAnswer) -> ConsumerGroupHeartbeatResponse | EncodedBody:
    assignment = None
    if answer.assignment is not None:
        assignment = await _assignment(answer.assignment)
    else:
        packed = unchanged_response(answer.member_id, answer.epoch, answer.heartbeat_interval_ms)
        if packed is not None:
            return packed
    return ConsumerGroupHeartbeatResponse(
        throttle_time=ZERO,
        error_code=ErrorCode.none,
        error_message=None,
        member_id=answer.member_id,
        member_epoch=answer.epoch,
        heartbeat_interval=answer.heartbeat_interval_ms * _MILLISECOND,
        assignment=assignment,
    )


async def _assignment(partitions: Partitions) -> Assignment:
    topics = []
    for topic_id, indexes in partitions.items():
        topics.append(TopicPartitions(topic_id=topic_id, partitions=tuple(sorted(indexes))))
        await give_way()
    return Assignment(topic_partitions=tuple(topics))


def _refusal(error: KafkaError) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(
        throttle_time=ZERO,
        error_code=error.code,
        error_message=error.message,
        member_id=None,
        member_epoch=0,
        heartbeat_interval=ZERO,
        assignment=None,
    )
