"""DescribeTopicPartitions (key 75), version 0: topics and partitions, a page at a time (KIP-966).

Topics are sorted by name, each once; no names mean all topics. A page has at most
`response_partition_limit` partitions, but at least one, and the cursor says where the next page
begins. Topics that do not exist, or that the client may not describe, do not count towards the
limit; the latter come last, if they are named.
"""

from __future__ import annotations

import heapq
from collections.abc import AsyncIterable, AsyncIterator, Callable, Container, Iterable, Iterator
from itertools import islice
from typing import Final, NamedTuple
from uuid import UUID

from drumlin.broker.context import RequestContext
from drumlin.broker.loop.garbage import settled
from drumlin.broker.parts.cluster_view import OPERATIONS_NOT_ASKED, leadership
from drumlin.broker.rights.acls import Kind, Operation
from drumlin.distinct import counted
from drumlin.metadata.image import PartitionState
from drumlin.metadata.names import INTERNAL_TOPICS, check_topic_name
from drumlin.turns import give_way
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.messages import ZERO
from drumlin.wire.protocol.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    TopicRequest,
)

#: Names that are sorted in one step.
_AT_ONCE: Final = 1000


class _Cursor(NamedTuple):
    topic_name: str
    partition_index: int


async def handle(
    context: RequestContext, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    image = context.broker.metadata.image
    asked: Iterator[str] = (topic.name for topic in request.topics)
    names = await counted(asked)
    start = request.cursor
    if start is not None and _points_nowhere(start, names):
        return await _refuse(request.topics, ErrorCode.invalid_request)
    is_all = not names
    if is_all:
        names = await counted(image.topics)
    if "" in names and start is None:
        return await _refuse(request.topics, ErrorCode.unknown_server_error)
    limit = min(
        context.broker.config.max_request_partition_size_limit, request.response_partition_limit
    )
    in_order = await _sorted(names, "" if start is None else start.topic_name)
    hidden: list[str] = []
    visible = _visible(context.sees if is_all else context.may, in_order, hidden)
    topics, cursor = await _page(context, visible, start, max(limit, 1))
    if not is_all:
        async for _ in visible:  # topics that may not be described do not count towards the limit
            pass
        for name in hidden:
            topics.append(_hidden(name))
            await give_way()
    return DescribeTopicPartitionsResponse(
        throttle_time=ZERO,
        topics=tuple(topics),
        next_cursor=None if cursor is None else Cursor(**cursor._asdict()),
    )


async def _sorted(names: Iterable[str], start: str = "") -> Iterator[str]:
    """The names from `start` on, in order: sorted in portions, which are merged lazily."""
    runs = []
    left = iter(names)
    while some := list(islice(left, _AT_ONCE)):
        runs.append(sorted(name for name in some if name >= start))
        await give_way()
    return heapq.merge(*runs)


def _points_nowhere(start: Cursor, names: Container[str]) -> bool:
    return start.partition_index < 0 or bool(names and start.topic_name not in names)


async def _visible(
    may: Callable[[Operation, Kind, str], bool], names: Iterable[str], hidden: list[str]
) -> AsyncIterator[str]:
    """The names of topics that may be described; the others are added to `hidden`."""
    for name in names:
        await give_way()
        if may(Operation.DESCRIBE, Kind.TOPIC, name):
            yield name
        else:
            hidden.append(name)


async def _page(
    context: RequestContext, names: AsyncIterable[str], start: Cursor | None, limit: int
) -> tuple[list[DescribeTopicPartitionsResponseTopic], _Cursor | None]:
    topics: list[DescribeTopicPartitionsResponseTopic] = []
    async for name in names:
        if limit == 0:
            return topics, _Cursor(name, 0)
        topic = context.broker.metadata.image.topics.get(name)
        if topic is None:
            topics.append(_missing(context, name))
            continue
        first = start.partition_index if start is not None and start.topic_name == name else 0
        partitions = topic.partitions[first : first + limit]
        described = []
        for each in partitions:
            described.append(_partition(context, name, each))
            await give_way()
        operations = context.operations(Kind.TOPIC, name)
        topics.append(_topic(name, topic.topic_id, described, operations))
        following = first + len(partitions)
        if following < len(topic.partitions):
            return topics, _Cursor(name, following)
        limit -= len(partitions)
    return topics, None


def _topic(
    name: str,
    topic_id: UUID | None,
    partitions: Iterable[DescribeTopicPartitionsResponsePartition],
    operations: int,
    code: ErrorCode = ErrorCode.none,
    *,
    is_internal: bool | None = None,
) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=code,
        name=name,
        topic_id=topic_id,
        is_internal=name in INTERNAL_TOPICS if is_internal is None else is_internal,
        partitions=settled(tuple(partitions)),
        topic_authorized_operations=operations,
    )


def _partition(
    context: RequestContext, topic: str, state: PartitionState
) -> DescribeTopicPartitionsResponsePartition:
    led = leadership(context.broker, topic, state)
    return DescribeTopicPartitionsResponsePartition(
        error_code=ErrorCode.none,  # also for a partition without a leader, unlike in Metadata
        partition_index=state.index,
        leader_id=led.leader,
        leader_epoch=state.leader_epoch,
        replica_nodes=state.replicas,
        isr_nodes=led.isr,
        eligible_leader_replicas=led.eligible_replicas,
        last_known_elr=led.last_known_replicas,
        offline_replicas=led.offline_replicas,
    )


def _hidden(name: str) -> DescribeTopicPartitionsResponseTopic:
    code = ErrorCode.topic_authorization_failed
    return _topic(name, None, (), OPERATIONS_NOT_ASKED, code, is_internal=False)


def _missing(context: RequestContext, name: str) -> DescribeTopicPartitionsResponseTopic:
    try:
        check_topic_name(name)
        code = ErrorCode.unknown_topic_or_partition
    except KafkaError as error:
        code = error.code
    return _topic(name, None, (), context.operations(Kind.TOPIC, name), code)


async def _refuse(
    wanted: Iterable[TopicRequest], code: ErrorCode
) -> DescribeTopicPartitionsResponse:
    topics = []
    for each in wanted:
        topics.append(_topic(each.name, None, (), OPERATIONS_NOT_ASKED, code))
        await give_way()
    return DescribeTopicPartitionsResponse(
        throttle_time=ZERO,
        topics=tuple(topics),
        next_cursor=None,
    )
