"""DeleteTopics (key 20), versions 1-6: delete topics with their records and configuration.

Each topic is answered by itself; naming one twice, in whatever way, is an error for it.

Version notes: 3 knows TOPIC_DELETION_DISABLED; 5 adds messages; 6 takes topic ids.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple
from uuid import UUID

from drumlin.broker.context import RequestContext
from drumlin.metadata.image import ClusterImage
from drumlin.turns import Work, side_by_side
from drumlin.wire.errors import ErrorCode, KafkaError
from drumlin.wire.messages import ZERO, Shape

_UNKNOWN_NAME = "there is no topic of this name"


class _Target(NamedTuple):
    """A topic to delete; what the request left out is filled in where it is known."""

    name: str | None
    topic_id: UUID | None
    error: KafkaError | None = None


async def handle(context: RequestContext, request: Any, shape: Shape) -> Any:
    refusal = _refusal(context, request)
    sorting = _sorted(context.broker.metadata.image, _named(request), refusal)
    targets = await context.broker.turns.run(sorting)

    async def delete(target: _Target) -> Any:
        return await _delete(context, shape, target)

    results = await side_by_side(delete, targets)
    return shape("DeleteTopicsResponse", throttle_time=ZERO, responses=tuple(results))


def _refusal(context: RequestContext, request: Any) -> KafkaError | None:
    """Why nothing at all is deleted."""
    if not context.broker.config.delete_topic_enable:
        if context.version < 3:
            return KafkaError(ErrorCode.invalid_request, "delete.topic.enable is false")
        return KafkaError(ErrorCode.topic_deletion_disabled, "delete.topic.enable is false")
    if request.timeout <= ZERO:
        return KafkaError(ErrorCode.request_timed_out)
    return None


def _named(request: Any) -> Iterable[tuple[str | None, UUID | None]]:
    if hasattr(request, "topics"):
        return ((topic.name, topic.topic_id) for topic in request.topics)
    return ((name, None) for name in request.topic_names)


class _Named(NamedTuple):
    """How often topics stand in a request, and what is wrong in it."""

    by_name: Counter[str]
    by_id: Counter[UUID]
    refused: list[_Target]


def _counted(
    named: Iterable[tuple[str | None, UUID | None]], refusal: KafkaError | None
) -> Work[_Named]:
    counted = _Named(Counter(), Counter(), [])
    for name, topic_id in named:
        error = refusal
        if error is None and name is not None and topic_id is None:
            counted.by_name[name] += 1
        elif error is None and name is None and topic_id is not None:
            counted.by_id[topic_id] += 1
        elif error is None and name is None:
            error = _invalid("a topic without name and id")
        elif error is None:
            error = _invalid("a topic with both name and id; give one of them")
        if error is not None:
            counted.refused.append(_Target(name, topic_id, error))
        yield
    return counted


def _sorted(
    image: ClusterImage,
    named: Iterable[tuple[str | None, UUID | None]],
    refusal: KafkaError | None,
) -> Work[list[_Target]]:
    """What to delete, and what to refuse: first what is wrong in the request itself."""
    by_name, by_id, refused = yield from _counted(named, refusal)
    targets: list[_Target] = []
    taken_by_name = set()
    for name, count in by_name.items():
        yield
        topic = image.topics.get(name)
        if count > 1:
            refused.append(_Target(name, None, _invalid("named more than once in one request")))
        elif topic is None:
            error = KafkaError(ErrorCode.unknown_topic_or_partition, _UNKNOWN_NAME)
            refused.append(_Target(name, None, error))
        elif topic.topic_id in by_id:
            message = "the topic of this name is named by its id too"
            refused.append(_Target(name, topic.topic_id, _invalid(message)))
            taken_by_name.add(topic.topic_id)
        else:
            targets.append(_Target(name, topic.topic_id))
    for topic_id, count in by_id.items():
        yield
        if count > 1:
            refused.append(_Target(None, topic_id, _invalid("named more than once in one request")))
        elif topic_id not in taken_by_name:
            targets.append(_Target(image.topic_name(topic_id), topic_id))
    return refused + targets


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.invalid_request, message)


async def _delete(context: RequestContext, shape: Shape, target: _Target) -> Any:
    error = target.error
    if error is None:
        assert target.topic_id is not None
        try:
            await context.broker.metadata.delete_topic(target.topic_id)
        except KafkaError as failure:
            error = failure.with_traceback(None)  # it would refer to this very frame
    return shape(
        "DeletableTopicResult",
        name=target.name,
        topic_id=target.topic_id,
        error_code=error.code if error else ErrorCode.none,
        error_message=error.message if error else None,
    )
