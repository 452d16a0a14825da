"""ConsumerGroupDescribe (key 69), versions 0-1: groups of the consumer protocol, and their members.

- A member is shown with its current and its target assignment, without deleted topics.
- From version 1 the answer says whether a member uses the classic protocol.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final
from uuid import UUID

from drumlin.broker.context import RequestContext
from drumlin.broker.rights.acls import Operation
from drumlin.broker.several_apis.group_descriptions import authorized_operations, refused_group
from drumlin.broker.several_apis.group_rights import check_described, require_group
from drumlin.coordination.groups.consumer.assignment import preferred_assignor
from drumlin.coordination.groups.consumer.group import ConsumerGroup
from drumlin.coordination.groups.consumer.member import Member, Progress
from drumlin.distinct import each_once
from drumlin.turns import give_way
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.messages import ZERO
from drumlin.wire.protocol.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    TopicPartitions,
)
from drumlin.wire.protocol.consumer_group_describe import Member as DescribedMember

_PROTOCOL: Final = "consumer"
_CLASSIC: Final = 0
_CONSUMER: Final = 1
#: Attempts for a group that changes meanwhile; after the last attempt members may be inconsistent.
_TRIES: Final = 3


async def handle(
    context: RequestContext, request: ConsumerGroupDescribeRequest
) -> ConsumerGroupDescribeResponse:
    groups = await each_once(
        request.group_ids, lambda group_id: _describe(context, request, group_id)
    )
    return ConsumerGroupDescribeResponse(throttle_time=ZERO, groups=tuple(groups))


async def _describe(
    context: RequestContext,
    request: ConsumerGroupDescribeRequest,
    group_id: str,
    tries_left: int = _TRIES,
) -> DescribedGroup:
    try:
        if _PROTOCOL not in context.broker.config.group_coordinator_rebalance_protocols:
            raise KafkaError(ErrorCode.unsupported_version)
        require_group(context, Operation.DESCRIBE, group_id)
        if not group_id:
            raise KafkaError(ErrorCode.invalid_group_id)
        group = context.broker.groups.consumer_group(group_id)
    except KafkaError as error:
        return refused_group(DescribedGroup, group_id, error)
    revision, members = group.revision, []
    for member in list(group.members.values()):
        members.append(await _member(group, member))
        await give_way()
    if tries_left and group.revision != revision:
        again = await _describe(context, request, group_id, tries_left - 1)
        return again
    try:
        await check_described(context, await _topics_of(members))
    except KafkaError as error:
        return refused_group(DescribedGroup, group_id, error)
    return DescribedGroup(
        error_code=ErrorCode.none,
        error_message=None,
        group_id=group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch.epoch,
        assignor_name=preferred_assignor(group, Counter(group.assignors)),
        members=tuple(members),
        authorized_operations=authorized_operations(context, request, group_id),
    )


async def _topics_of(members: Iterable[DescribedMember]) -> set[str]:
    names = set[str]()
    for member in members:
        for assignment in (member.assignment, member.target_assignment):
            names.update(each.topic_name for each in assignment.topic_partitions)
            await give_way()
    return names


async def _member(group: ConsumerGroup, member: Member) -> DescribedMember:
    subscription = member.subscription
    held = await _assignment(group, await _held(member.progress))
    target = await _assignment(group, group.targets.get(member.member_id, {}))
    return DescribedMember(
        member_id=member.member_id,
        instance_id=subscription.group_instance_id,
        rack_id=subscription.rack_id,
        member_epoch=member.epoch,
        client_id=subscription.client_id,
        client_host=subscription.client_host,
        subscribed_topic_names=tuple(sorted(subscription.topics)),
        subscribed_topic_regex=subscription.regex,
        assignment=held,
        target_assignment=target,
        member_type=_CLASSIC if member.is_classic else _CONSUMER,
    )


async def _held(progress: Progress) -> dict[UUID, set[int]]:
    """The partitions that a member has, including those that it is giving up."""
    held: dict[UUID, set[int]] = {}
    for partitions in (progress.assigned, progress.revoking):
        for topic_id, epochs in partitions.items():
            held.setdefault(topic_id, set()).update(epochs)
            await give_way()
    return held


async def _assignment(group: ConsumerGroup, partitions: Mapping[UUID, Iterable[int]]) -> Assignment:
    topics = []
    for topic_id, indexes in list(partitions.items()):
        topic = group.context.topics.by_id(topic_id)
        if topic is not None:
            topics.append(
                TopicPartitions(
                    topic_id=topic_id,
                    topic_name=topic.name,
                    partitions=tuple(sorted(indexes)),
                )
            )
        await give_way()
    return Assignment(topic_partitions=tuple(topics))
