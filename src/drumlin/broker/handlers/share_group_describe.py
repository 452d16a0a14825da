"""ShareGroupDescribe (key 77), version 1: state and members of share groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from drumlin.broker.context import RequestContext
from drumlin.broker.rights.acls import Operation
from drumlin.broker.several_apis.group_descriptions import authorized_operations, refused_group
from drumlin.broker.several_apis.group_rights import check_described, require_group
from drumlin.coordination.groups.share.messages import DescribedMember
from drumlin.distinct import each_once
from drumlin.turns import give_way
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.messages import ZERO
from drumlin.wire.protocol.share_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    TopicPartitions,
)

_ASSIGNOR: Final = "simple"


async def handle(
    context: RequestContext, request: ShareGroupDescribeRequest
) -> ShareGroupDescribeResponse:
    groups = await each_once(
        request.group_ids, lambda group_id: _describe(context, request, group_id)
    )
    return ShareGroupDescribeResponse(throttle_time=ZERO, groups=tuple(groups))


async def _describe(
    context: RequestContext, request: ShareGroupDescribeRequest, group_id: str
) -> DescribedGroup:
    try:
        require_group(context, Operation.DESCRIBE, group_id)
        group = context.broker.share_groups.group(group_id)
    except KafkaError as error:
        if error.code is ErrorCode.not_coordinator:  # the only code with a message in Apache Kafka
            error = KafkaError(error.code, "the group is coordinated by another broker")
        return refused_group(DescribedGroup, group_id, error)
    described = group.describe()
    state_name, epoch, assignment_epoch = group.state_name, group.epoch, group.target.epoch
    members = []
    for each in described:
        members.append(_member(context, each))
        await give_way()
    try:
        await check_described(context, _topics_of(members))
    except KafkaError as error:
        return refused_group(DescribedGroup, group_id, error)
    return DescribedGroup(
        error_code=ErrorCode.none,
        error_message=None,
        group_id=group_id,
        group_state=state_name,
        group_epoch=epoch,
        assignment_epoch=assignment_epoch,
        assignor_name=_ASSIGNOR,
        members=tuple(members),
        authorized_operations=authorized_operations(context, request, group_id),
    )


def _topics_of(members: Iterable[Member]) -> Iterator[str]:
    for member in members:
        for each in member.assignment.topic_partitions:
            yield each.topic_name


def _member(context: RequestContext, member: DescribedMember) -> Member:
    image = context.broker.metadata.image
    held = tuple(
        TopicPartitions(topic_id=topic_id, topic_name=name, partitions=partitions)
        for topic_id, partitions in member.assignment.items()
        if (name := image.topic_name(topic_id)) is not None
    )
    return Member(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=member.topics,
        assignment=Assignment(topic_partitions=held),
    )
