"""DescribeShareGroupOffsets (key 90), versions 0-1: the start offsets of share groups.

If the request names no topics for a group, all topics are described for which the group has state,
and that the client may see. Version 1 adds the lag: the number of records left, including those
between delivered ones (KIP-1226).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final
from uuid import UUID

from drumlin.broker.context import RequestContext
from drumlin.broker.rights.acls import Kind, Operation
from drumlin.broker.rights.denials import DENIED, denied
from drumlin.coordination.share.state.state import UNINITIALIZED_OFFSET, UNKNOWN_COUNT, ShareState
from drumlin.turns import give_way, side_by_side
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.messages import ZERO
from drumlin.wire.protocol.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)

_NO_LAG: Final = -1
#: Entries with more topics, or more partitions, are not compared.
_COMPARED_MAX: Final = 100
_NO_TOPIC: Final = UUID(int=0)
_DENIED: Final = partial(
    DescribeShareGroupOffsetsResponseGroup,
    topics=(),
    error_code=DENIED[Kind.GROUP],
    error_message=None,
)


async def handle(
    context: RequestContext, request: DescribeShareGroupOffsetsRequest
) -> DescribeShareGroupOffsetsResponse:
    counts: Counter[str] = Counter()
    for each in request.groups:
        counts[each.group_id] += 1
        await give_way()
    named: dict[object, DescribeShareGroupOffsetsRequestGroup] = {}
    for number, each in enumerate(request.groups):
        # Repeated entries are answered once; long entries are not compared, as that takes too long.
        is_compared = counts[each.group_id] > 1 and _says_little(each)
        named[each if is_compared else (each.group_id, number)] = each
        await give_way()
    groups = [await _group(context, each) for each in named.values()]
    return DescribeShareGroupOffsetsResponse(throttle_time=ZERO, groups=tuple(groups))


def _says_little(wanted: DescribeShareGroupOffsetsRequestGroup) -> bool:
    topics = wanted.topics or ()
    return len(topics) <= _COMPARED_MAX and sum(len(each.partitions) for each in topics) <= (
        _COMPARED_MAX
    )


async def _group(
    context: RequestContext, wanted: DescribeShareGroupOffsetsRequestGroup
) -> DescribeShareGroupOffsetsResponseGroup:
    group_id = wanted.group_id
    code, message = ErrorCode.none, None
    topics: list[DescribeShareGroupOffsetsResponseTopic] = []
    await give_way()
    if not context.may(Operation.DESCRIBE, Kind.GROUP, group_id):
        return _DENIED(group_id=group_id)
    try:
        asked: Iterable[tuple[str, Sequence[int]]]
        if wanted.topics is None:
            asked = list(context.broker.share_groups.initialized(group_id).items())
        else:
            asked = ((each.topic_name, each.partitions) for each in wanted.topics)
        for name, partitions in asked:
            if wanted.topics is None and not _may_see(context, name):
                continue
            topics.append(await _topic(context, group_id, name, partitions))
    except KafkaError as error:
        code, message = error.code, error.message or error.code.name
    return DescribeShareGroupOffsetsResponseGroup(
        group_id=group_id,
        topics=tuple(topics),
        error_code=code,
        error_message=message,
    )


def _may_see(context: RequestContext, name: str) -> bool:
    return context.may(Operation.DESCRIBE, Kind.TOPIC, name)


async def _topic(
    context: RequestContext,
    group_id: str,
    name: str,
    partitions: Sequence[int],
) -> DescribeShareGroupOffsetsResponseTopic:
    if not _may_see(context, name):
        return await _denied_topic(name, partitions)
    topic = context.broker.metadata.image.topics.get(name)
    topic_id = _NO_TOPIC if topic is None else topic.topic_id
    await give_way()
    # Side by side, as coordinators and leaders may be on other brokers.
    described = await side_by_side(
        lambda each: _partition(context, group_id, name, topic_id, each), partitions
    )
    return DescribeShareGroupOffsetsResponseTopic(
        topic_name=name,
        topic_id=topic_id,
        partitions=tuple(described),
    )


async def _denied_topic(
    name: str, partitions: Sequence[int]
) -> DescribeShareGroupOffsetsResponseTopic:
    refusal, told = denied(Kind.TOPIC), []
    for index in partitions:
        told.append(
            DescribeShareGroupOffsetsResponsePartition(
                partition_index=index,
                start_offset=UNINITIALIZED_OFFSET,
                leader_epoch=0,
                lag=_NO_LAG,
                error_code=refusal.code,
                error_message=refusal.message,
            )
        )
        await give_way()
    return DescribeShareGroupOffsetsResponseTopic(
        topic_name=name, topic_id=_NO_TOPIC, partitions=tuple(told)
    )


async def _partition(
    context: RequestContext, group_id: str, name: str, topic_id: UUID, index: int
) -> DescribeShareGroupOffsetsResponsePartition:
    start_offset, leader_epoch, lag = UNINITIALIZED_OFFSET, 0, _NO_LAG
    code, message = ErrorCode.none, None
    try:
        if topic_id != _NO_TOPIC:  # no offsets for a topic that does not exist, as in Kafka
            state = await context.broker.share_groups.state_of(group_id, topic_id, index)
            lag = await _lag(context, name, index, state)
            start_offset, leader_epoch = state.start_offset, state.leader_epoch
    except KafkaError as error:
        code, message = error.code, error.message or error.code.name
    return DescribeShareGroupOffsetsResponsePartition(
        partition_index=index,
        start_offset=start_offset,
        leader_epoch=leader_epoch,
        lag=lag,
        error_code=code,
        error_message=message,
    )


async def _lag(context: RequestContext, name: str, index: int, state: ShareState) -> int:
    done = state.delivery_complete_count
    if state.start_offset == UNINITIALIZED_OFFSET or done == UNKNOWN_COUNT:
        return _NO_LAG
    end_offset = await context.broker.log_ends.high_watermark(name, index)
    return end_offset - state.start_offset - done
