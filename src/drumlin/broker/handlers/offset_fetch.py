"""OffsetFetch (key 9), versions 1-10: what a group has committed.

- A partition without a commit has offset -1 and no error, whether or not it exists.
- From version 2 null for the topics means all of them, and errors of the group stand on top.
- From version 9 a member of a consumer group gives its epoch, and is refused if that is stale.
- From version 8 several groups are asked for at once (KIP-709); from 10 topics are named by id
  (KIP-848), and those with an unknown id are answered last.
- A group that is named twice with the same topics is answered once.
- With `require_stable` (7+, KIP-447) a partition is UNSTABLE_OFFSET_COMMIT while a transaction
  is open that may change what is committed for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from drumlin.broker.context import RequestContext
from drumlin.coordination.groups.coordinator import FetchedOffsets
from drumlin.coordination.groups.records import NO_LEADER_EPOCH, CommittedOffset
from drumlin.turns import Work
from drumlin.wire.errors import ErrorCode, KafkaError
from drumlin.wire.messages import ZERO, Shape

_GROUP_ERROR: Final = 2
_SEVERAL_GROUPS: Final = 8
_TOPIC_IDS: Final = 10
_NO_OFFSET: Final = -1
_NO_EPOCH: Final = -1

Asked = Sequence[tuple[str, Sequence[int]]] | None


def handle(context: RequestContext, request: Any, shape: Shape) -> Any:
    if context.broker.groups.has_unconfirmed:
        return _wait_and_respond(context, request, shape)
    return _respond(context, request, shape)


async def _wait_and_respond(context: RequestContext, request: Any, shape: Shape) -> Any:
    try:
        await context.broker.groups.all_confirmed()
    except KafkaError as refusal:
        return _respond(context, request, shape, refusal)
    return _respond(context, request, shape)


def _respond(
    context: RequestContext, request: Any, shape: Shape, refusal: KafkaError | None = None
) -> Work[Any]:
    """`refusal`: what all groups are answered."""
    if context.version < _SEVERAL_GROUPS:
        return (yield from _one_group(context, request, shape, refusal))
    by_id = context.version >= _TOPIC_IDS
    groups = []
    for group in dict.fromkeys(request.groups):
        answer = _group_by_ids if by_id else _group_by_names
        groups.append((yield from answer(context, request, group, shape, refusal)))
    return shape("OffsetFetchResponse", throttle_time=ZERO, groups=tuple(groups))


def _committed(
    context: RequestContext, group: Any, asked: Asked, stable: bool, refusal: KafkaError | None
) -> Work[FetchedOffsets]:
    """
    Raises:
        KafkaError: the group cannot be asked, or refuses.
    """
    if refusal is not None:
        raise refusal
    found = []
    for topic in context.broker.groups.committed_offsets(
        group.group_id,
        asked,
        requires_stable=stable,
        member_id=getattr(group, "member_id", None),
        member_epoch=getattr(group, "member_epoch", _NO_EPOCH),
    ):
        found.append(topic)
        yield
    return found


def _one_group(
    context: RequestContext, request: Any, shape: Shape, refusal: KafkaError | None
) -> Work[Any]:
    code, topics = ErrorCode.none, ()
    try:
        stable = getattr(request, "require_stable", False)
        fetched = yield from _committed(context, request, _asked(request), stable, refusal)
        topics = yield from _topics_by_name(shape, "OffsetFetchResponseTopic", fetched)
    except KafkaError as error:
        code = error.code
        if context.version < _GROUP_ERROR:
            topics = _failed_topics(shape, request, code)
    return shape("OffsetFetchResponse", throttle_time=ZERO, topics=topics, error_code=code)


def _asked(request: Any) -> Asked:
    if request.topics is None:
        return None
    return [(topic.name, topic.partition_indexes) for topic in request.topics]


def _group_by_names(
    context: RequestContext, request: Any, group: Any, shape: Shape, refusal: KafkaError | None
) -> Work[Any]:
    code, topics = ErrorCode.none, ()
    try:
        fetched = yield from _committed(
            context, group, _asked(group), request.require_stable, refusal
        )
        topics = yield from _topics_by_name(shape, "OffsetFetchResponseTopics", fetched)
    except KafkaError as error:
        code = error.code
    return shape(
        "OffsetFetchResponseGroup", group_id=group.group_id, topics=topics, error_code=code
    )


def _group_by_ids(
    context: RequestContext, request: Any, group: Any, shape: Shape, refusal: KafkaError | None
) -> Work[Any]:
    image = context.broker.metadata.image
    asked: list[tuple[str, Sequence[int]]] | None = None
    unknown: list[Any] = []
    if group.topics is not None:
        asked = []
        for topic in group.topics:
            name = image.topic_name(topic.topic_id)
            if name is None:
                unknown.append(_unknown_topic(shape, topic))
            else:
                asked.append((name, topic.partition_indexes))
    code, topics = ErrorCode.none, []
    try:
        fetched = yield from _committed(context, group, asked, request.require_stable, refusal)
        for name, partitions in fetched:
            state = image.topics.get(name)
            if state is not None:
                found = yield from _partitions(shape, "OffsetFetchResponsePartitions", partitions)
                topics.append(
                    shape("OffsetFetchResponseTopics", topic_id=state.topic_id, partitions=found)
                )
            yield
        topics += unknown
    except KafkaError as error:
        code = error.code
    return shape(
        "OffsetFetchResponseGroup",
        group_id=group.group_id,
        topics=tuple(topics),
        error_code=code,
    )


def _topics_by_name(shape: Shape, class_name: str, fetched: FetchedOffsets) -> Work[Any]:
    partition_class = class_name.replace("Topic", "Partition")
    topics = []
    for name, partitions in fetched:
        found = yield from _partitions(shape, partition_class, partitions)
        topics.append(shape(class_name, name=name, partitions=found))
    return tuple(topics)


def _partitions(
    shape: Shape, class_name: str, partitions: list[tuple[int, CommittedOffset | ErrorCode | None]]
) -> Work[Any]:
    answers = []
    for partition, found in partitions:
        if isinstance(found, CommittedOffset):
            answer = shape(
                class_name,
                partition_index=partition,
                committed_offset=found.offset,
                committed_leader_epoch=found.leader_epoch,
                metadata=found.metadata,
                error_code=ErrorCode.none,
            )
        else:
            answer = _failed(shape, class_name, partition, found or ErrorCode.none)
        answers.append(answer)
        yield
    return tuple(answers)


def _failed(shape: Shape, class_name: str, partition: int, code: ErrorCode) -> Any:
    return shape(
        class_name,
        partition_index=partition,
        committed_offset=_NO_OFFSET,
        committed_leader_epoch=NO_LEADER_EPOCH,
        metadata="",
        error_code=code,
    )


def _unknown_topic(shape: Shape, topic: Any) -> Any:
    code = ErrorCode.unknown_topic_id
    return shape(
        "OffsetFetchResponseTopics",
        topic_id=topic.topic_id,
        partitions=tuple(
            _failed(shape, "OffsetFetchResponsePartitions", partition, code)
            for partition in topic.partition_indexes
        ),
    )


def _failed_topics(shape: Shape, request: Any, code: ErrorCode) -> Any:
    return tuple(
        shape(
            "OffsetFetchResponseTopic",
            name=topic.name,
            partitions=tuple(
                _failed(shape, "OffsetFetchResponsePartition", partition, code)
                for partition in topic.partition_indexes
            ),
        )
        for topic in request.topics
    )
