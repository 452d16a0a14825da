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
from dataclasses import replace
from datetime import timedelta
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from drumlin.broker.commit_lane import FRAME_BYTES_MAX, CommitLane, Learnt
from drumlin.broker.context import RequestContext, Waiting
from drumlin.broker.offset_positions import position_of
from drumlin.coordination.groups.commit import Commit, Position
from drumlin.coordination.groups.repeated_commit import RepeatedCommit
from drumlin.coordination.written import Written
from drumlin.metadata.image import TopicState
from drumlin.wire.commit_template import RequestTemplate
from drumlin.wire.errors import ErrorCode, KafkaError
from drumlin.wire.frame_answers import AnswerTemplate
from drumlin.wire.messages import (
    ZERO,
    RequestHeader,
    Shape,
    encode_request,
    encode_response,
    parse_request,
    parse_request_header,
    response_shape,
)

if TYPE_CHECKING:
    from drumlin.broker.broker import Broker

_MILLISECOND: Final = timedelta(milliseconds=1)
_DEFAULT_RETENTION_MS: Final = -1
_LEADER_EPOCHS: Final = 6
_TOPIC_IDS: Final = 10
_GROUP_ID_NOT_FOUND: Final = 9

#: A topic as the request names it.
TopicKey = str | UUID | None
#: A topic's partitions and what became of them.
Results = list[tuple[int, ErrorCode]]
Accepted = list[tuple[TopicKey, list[Position]]]


def open_lane(
    context: RequestContext, request: Any, frame: memoryview, shape: Shape
) -> CommitLane | None:
    """A fast lane for requests like this one; None if it is not of the kind that has one."""
    if context.version < _LEADER_EPOCHS or len(frame) > FRAME_BYTES_MAX:
        return None
    known = context.connection.lanes.get(CommitLane.kind)
    lane = known or CommitLane(context.broker, partial(_learn, context.broker))
    assert isinstance(lane, CommitLane)
    lane.watch(frame)
    return lane


def _learn(broker: Broker, frame: memoryview) -> Learnt | None:
    header = parse_request_header(frame)
    version = header.api_version
    shape = response_shape("offset_commit", version)
    request = parse_request("offset_commit", version, frame, header.size)
    accepted, refused = _sorted_out(broker, version, request)
    if refused or not accepted:
        return None
    template = RequestTemplate(_example_request(header, request))
    if template.positions_in(frame) is None:  # it is written in another way
        return None
    try:
        commit = RepeatedCommit(_commit(request, accepted, version))
    except (ValueError, KafkaError):
        return None

    def respond(correlation_id: int, error: KafkaError | None) -> list[Any]:
        results = (
            _results(accepted, repeat(ErrorCode.none))
            if error is None
            else _failed(accepted, version, error)
        )
        response = _response(shape, {}, results)
        return encode_response("offset_commit", version, correlation_id, response)

    topics = [_find_topic(broker, version, topic)[1] for topic in request.topics]
    return Learnt(
        [topic for topic in topics if topic is not None],
        commit,
        template,
        AnswerTemplate(b"".join(respond(0, None))),
        respond,
    )


def _example_request(header: RequestHeader, request: Any) -> bytes:
    topics = tuple(
        replace(
            topic,
            partitions=tuple(
                replace(
                    part,
                    committed_offset=RequestTemplate.OFFSET,
                    committed_leader_epoch=RequestTemplate.LEADER_EPOCH,
                )
                for part in topic.partitions
            ),
        )
        for topic in request.topics
    )
    example = replace(request, topics=topics)
    parts = encode_request("offset_commit", header.api_version, 0, header.client_id, example)
    return b"".join(parts)[4:]


def handle(context: RequestContext, request: Any, shape: Shape) -> Any:
    accepted, refused = _sorted_out(context.broker, context.version, request)
    if not accepted:
        return _response(shape, refused, [])
    commit = _commit(request, accepted, context.version)
    try:
        written = context.broker.groups.commit(commit)
    except KafkaError as error:
        return _response(shape, refused, _failed(accepted, shape.version, error))
    if written.done():
        return _response(shape, refused, _results(accepted, written.result()))
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


def _sorted_out(
    broker: Broker, version: int, request: Any
) -> tuple[Accepted, dict[TopicKey, Results]]:
    """What names partitions that there are, and the answers to what does not."""
    accepted: Accepted = []
    refused: dict[TopicKey, Results] = {}
    for topic in request.topics:
        key, state, missing = _find_topic(broker, version, topic)
        positions = []
        for part in topic.partitions:
            if state is not None and state.partition(part.partition_index) is not None:
                positions.append(position_of(state, part))
            else:
                refused.setdefault(key, []).append((part.partition_index, missing))
        if positions:
            accepted.append((key, positions))
        elif state is None:
            refused.setdefault(key, [])
    return accepted, refused


def _commit(request: Any, accepted: Accepted, version: int) -> Commit:
    return Commit(
        group_id=request.group_id,
        member_id=request.member_id,
        group_instance_id=getattr(request, "group_instance_id", None),
        generation_id=request.generation_id_or_member_epoch,
        retention_ms=_retention_ms(request),
        positions=[position for _, positions in accepted for position in positions],
        version=version,
    )


def _find_topic(
    broker: Broker, version: int, topic: Any
) -> tuple[TopicKey, TopicState | None, ErrorCode]:
    """How the request names the topic, the topic, and the error where a partition is not there."""
    image = broker.metadata.image
    if version < _TOPIC_IDS:
        state = image.topics.get(topic.name)
        return topic.name, state, ErrorCode.unknown_topic_or_partition
    state = None if topic.topic_id is None else image.topics_by_id.get(topic.topic_id)
    missing = ErrorCode.unknown_topic_id if state is None else ErrorCode.unknown_topic_or_partition
    return topic.topic_id, state, missing


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
