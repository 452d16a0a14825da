"""DeleteTopics (key 20), versions 1-6: delete topics with their records and configuration.

Each topic is answered by itself; naming one twice, by name or id, is an error for it. The answers
are in random order, so that the position of an answer reveals nothing about its topic.

Version notes: 3 adds TOPIC_DELETION_DISABLED; 5 adds messages and
THROTTLING_QUOTA_EXCEEDED; 6 takes topic ids.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple
from uuid import UUID

from drumlin.broker.context import RequestContext
from drumlin.broker.quotas.mutations import Mutations, throttle_time_of
from drumlin.broker.rights.acls import Kind, Operation
from drumlin.broker.rights.denials import denied
from drumlin.distinct import counted
from drumlin.metadata.image import ClusterImage
from drumlin.turns import give_way, side_by_side
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.messages import ZERO
from drumlin.wire.protocol.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)


class _Failure(NamedTuple):
    """The answer for a topic that is not deleted."""

    code: ErrorCode
    message: str | None


class _Target(NamedTuple):
    """A topic to delete; a missing name or id is filled in if known."""

    name: str | None
    topic_id: UUID | None
    failure: _Failure | None = None
    is_named: bool = False


def _invalid(message: str) -> _Failure:
    return _Failure(ErrorCode.invalid_request, message)


_NEITHER: Final = _invalid("a topic without name and id")
_BOTH: Final = _invalid("a topic with both name and id; give one of them")
_REPEATED: Final = _invalid("named more than once in one request")
_NAMED_BY_ID: Final = _invalid("the topic of this name is named by its id too")
_DENIED: Final = _Failure(ErrorCode.topic_authorization_failed, denied(Kind.TOPIC).message)
_UNKNOWN: Final = _Failure(ErrorCode.unknown_topic_or_partition, "there is no topic of this name")
_DELETION_DISABLED_FROM: Final = 3
#: From this version on, requests that exceed a quota on partition changes are refused (KIP-599).
_STRICT_FROM: Final = 5


async def handle(context: RequestContext, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    image = context.broker.metadata.image
    refused, targets = await _sorted(context, image, request, _refusal(context, request))

    mutations = context.mutations(_STRICT_FROM)

    async def delete(target: _Target) -> DeletableTopicResult:
        return await _delete(context, target, mutations)

    results = await _refusals(refused)
    results += await side_by_side(delete, targets)
    await _shuffle(results)
    return DeleteTopicsResponse(throttle_time=throttle_time_of(mutations), responses=tuple(results))


async def _shuffle(results: list[DeletableTopicResult]) -> None:
    for place in range(len(results) - 1, 0, -1):
        other = random.randint(0, place)
        results[place], results[other] = results[other], results[place]
        await give_way()


def _refusal(context: RequestContext, request: DeleteTopicsRequest) -> _Failure | None:
    """The error that refuses the whole request, or None."""
    if not context.broker.config.delete_topic_enable:
        is_known = context.version >= _DELETION_DISABLED_FROM
        code = ErrorCode.topic_deletion_disabled if is_known else ErrorCode.invalid_request
        return _Failure(code, "delete.topic.enable is false")
    if request.timeout <= ZERO:
        return _Failure(ErrorCode.request_timed_out, None)
    return None


def _named(request: DeleteTopicsRequest) -> Iterator[tuple[str | None, UUID | None]]:
    if request.topics is not None:
        return ((topic.name, topic.topic_id) for topic in request.topics)
    return ((name, None) for name in request.topic_names)


async def _sorted(
    context: RequestContext,
    image: ClusterImage,
    request: DeleteTopicsRequest,
    refusal: _Failure | None,
) -> tuple[list[_Target], list[_Target]]:
    """The topics to refuse, those with an invalid name or id first, and the topics to delete."""
    refused: list[_Target] = []
    names: list[str] = []
    ids: list[UUID] = []
    for name, topic_id in _named(request):
        failure = refusal
        if failure is None and (name is None) == (topic_id is None):
            failure = _NEITHER if name is None else _BOTH
        if failure is not None:
            refused.append(_Target(name, topic_id, failure))
        elif name is not None:
            names.append(name)
        elif topic_id is not None:
            ids.append(topic_id)
        await give_way()
    by_name, by_id = await counted(names), await counted(ids)
    targets = await _those_there(context, image, by_name, by_id, refused)
    return refused, targets


async def _those_there(
    context: RequestContext,
    image: ClusterImage,
    by_name: Mapping[str, int],
    by_id: Mapping[UUID, int],
    refused: list[_Target],
) -> list[_Target]:
    """The existing topics that may be deleted; the others are added to `refused`."""
    targets: list[_Target] = []
    taken_by_name = set()
    for name, times in by_name.items():
        await give_way()
        topic = image.topics.get(name)
        if times > 1:
            refused.append(_Target(name, None, _REPEATED))
        elif not _may(context, Operation.DESCRIBE, name):
            refused.append(_Target(name, None, _DENIED))
        elif topic is None:
            refused.append(_Target(name, None, _UNKNOWN))
        elif not _may(context, Operation.DELETE, name):
            refused.append(_Target(name, None, _DENIED))
        elif topic.topic_id in by_id:
            refused.append(_Target(name, topic.topic_id, _NAMED_BY_ID))
            taken_by_name.add(topic.topic_id)
        else:
            targets.append(_Target(name, topic.topic_id, is_named=True))
    for topic_id, times in by_id.items():
        await give_way()
        if times > 1:
            refused.append(_Target(None, topic_id, _REPEATED))
        elif topic_id not in taken_by_name:
            target = _Target(image.topic_name(topic_id), topic_id)
            if target.name is None or _may(context, Operation.DELETE, target.name):
                targets.append(target)
            else:
                refused.append(_denied_by_id(context, target))
    return targets


def _may(context: RequestContext, operation: Operation, name: str) -> bool:
    """Whether the principal may delete all topics, or may do this to the named one."""
    may_all = context.sees_cluster(Operation.DELETE)
    return may_all or context.may(operation, Kind.TOPIC, name)


def _denied_by_id(context: RequestContext, target: _Target) -> _Target:
    name = target.name
    is_told = name is not None and _may(context, Operation.DESCRIBE, name)
    return _Target(name if is_told else None, target.topic_id, _DENIED)


async def _refusals(refused: list[_Target]) -> list[DeletableTopicResult]:
    results = []
    for each in refused:
        results.append(_result(each, each.failure))
        await give_way()
    return results


async def _delete(
    context: RequestContext, target: _Target, mutations: Mutations | None
) -> DeletableTopicResult:
    assert target.topic_id is not None
    is_lost = target.name is not None and not _may(context, Operation.DELETE, target.name)
    if is_lost:  # the right was revoked meanwhile
        refused = _Target(target.name, None) if target.is_named else _denied_by_id(context, target)
        return _result(refused, _DENIED)
    failure = None
    try:
        topic = context.broker.metadata.image.topics_by_id.get(target.topic_id)
        if mutations is not None and topic is not None:
            mutations.take(len(topic.partitions))
        await context.broker.metadata.delete_topic(target.topic_id)
    except KafkaError as error:
        failure = _Failure(error.code, error.message)
        if target.is_named and error.code is ErrorCode.unknown_topic_id:  # deleted meanwhile
            target, failure = _Target(target.name, None), _UNKNOWN
    return _result(target, failure)


def _result(target: _Target, failure: _Failure | None) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=target.name,
        topic_id=target.topic_id,
        error_code=failure.code if failure else ErrorCode.none,
        error_message=failure.message if failure else None,
    )
