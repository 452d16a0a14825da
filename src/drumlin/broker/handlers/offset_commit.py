"""OffsetCommit (key 8), versions 2-10: remember positions of a group.

- Answered when they are in the log: the next request of the connection may start meanwhile.
- Partitions that do not exist are answered first, as Apache Kafka does, whatever becomes of
  the others.
- Up to version 4 a retention of its own may be given; from 6 leader epochs come along, from 7
  static members; from 10 topics are named by id (KIP-848).
- From version 9 a group that is not there is GROUP_ID_NOT_FOUND, before ILLEGAL_GENERATION.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from drumlin.broker.context import RequestContext, Waiting
from drumlin.coordination.groups.shard import Commit, Position
from drumlin.coordination.written import Written
from drumlin.metadata.image import TopicState
from drumlin.wire.errors import ErrorCode, KafkaError
from drumlin.wire.messages import ZERO, Shape

_MILLISECOND: Final = timedelta(milliseconds=1)
_DEFAULT_RETENTION_MS: Final = -1
_TOPIC_IDS: Final = 10
_GROUP_ID_NOT_FOUND: Final = 9

#: A topic as the request names it.
TopicKey = str | UUID | None
#: A topic's partitions and what became of them.
Results = list[tuple[int, ErrorCode]]
Accepted = list[tuple[TopicKey, list[Position]]]


def handle(context: RequestContext, request: Any, shape: Shape) -> Any:
    refused: dict[TopicKey, Results] = {}
    accepted: Accepted = []
    for topic in request.topics:
        key, state, missing = _find_topic(context, topic)
        positions = []
        for part in topic.partitions:
            if state is not None and state.partition(part.partition_index) is not None:
                positions.append(_position(state, part))
            else:
                refused.setdefault(key, []).append((part.partition_index, missing))
        if positions:
            accepted.append((key, positions))
        elif state is None:
            refused.setdefault(key, [])
    if not accepted:
        return _response(shape, refused, [])
    commit = Commit(
        group_id=request.group_id,
        member_id=request.member_id,
        group_instance_id=getattr(request, "group_instance_id", None),
        generation_id=request.generation_id_or_member_epoch,
        retention_ms=_retention_ms(request),
        positions=[position for _, positions in accepted for position in positions],
        version=context.version,
    )
    try:
        written = context.broker.groups.commit(commit)
    except KafkaError as error:
        return _response(shape, refused, _failed(accepted, shape.version, error))
    if written.is_confirmed:
        return _response(shape, refused, _results(accepted, written.answer))
    return Waiting(_respond(shape, refused, accepted, written))


async def _respond(
    shape: Shape,
    refused: dict[TopicKey, Results],
    accepted: Accepted,
    written: Written[list[ErrorCode]],
) -> Any:
    try:
        results = _results(accepted, await written)
    except KafkaError as error:
        results = _failed(accepted, shape.version, error)
    return _response(shape, refused, results)


def _find_topic(
    context: RequestContext, topic: Any
) -> tuple[TopicKey, TopicState | None, ErrorCode]:
    """How the request names the topic, the topic, and the error where a partition is not there."""
    image = context.broker.metadata.image
    if context.version < _TOPIC_IDS:
        state = image.topics.get(topic.name)
        return topic.name, state, ErrorCode.unknown_topic_or_partition
    state = None if topic.topic_id is None else image.topics_by_id.get(topic.topic_id)
    missing = ErrorCode.unknown_topic_id if state is None else ErrorCode.unknown_topic_or_partition
    return topic.topic_id, state, missing


def _position(topic: TopicState, part: Any) -> Position:
    return Position(
        topic.name,
        topic.topic_id,
        part.partition_index,
        part.committed_offset,
        getattr(part, "committed_leader_epoch", -1),
        part.committed_metadata or "",
    )


def _retention_ms(request: Any) -> int | None:
    retention = getattr(request, "retention_time", None)
    retention_ms = _DEFAULT_RETENTION_MS if retention is None else retention // _MILLISECOND
    return None if retention_ms == _DEFAULT_RETENTION_MS else retention_ms


def _results(accepted: Accepted, codes: Iterable[ErrorCode]) -> list[tuple[TopicKey, Results]]:
    code = iter(codes)
    return [
        (key, [(position.partition, next(code)) for position in positions])
        for key, positions in accepted
    ]


def _failed(accepted: Accepted, version: int, error: KafkaError) -> list[tuple[TopicKey, Results]]:
    code = error.code
    if code is ErrorCode.group_id_not_found and version < _GROUP_ID_NOT_FOUND:
        code = ErrorCode.illegal_generation
    return [
        (key, [(position.partition, code) for position in positions]) for key, positions in accepted
    ]


def _response(
    shape: Shape, refused: dict[TopicKey, Results], results: list[tuple[TopicKey, Results]]
) -> Any:
    if refused:
        for key, of_topic in results:
            refused.setdefault(key, []).extend(of_topic)
        results = list(refused.items())
    topics = tuple(
        shape(
            "OffsetCommitResponseTopic",
            name=key,
            topic_id=key,
            partitions=tuple(
                shape("OffsetCommitResponsePartition", partition_index=partition, error_code=code)
                for partition, code in of_topic
            ),
        )
        for key, of_topic in results
    )
    return shape("OffsetCommitResponse", throttle_time=ZERO, topics=topics)
