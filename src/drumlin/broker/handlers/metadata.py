"""Metadata (key 3), versions 0-13: brokers, and topics with their leaders.

- A null list of topics (in version 0 an empty one) means all topics.
- A topic that does not exist is created where client and broker allow it. As with Apache
  Kafka the answer to that very request still says UNKNOWN_TOPIC_OR_PARTITION.
- Topics are answered once each, however often they are named.

Version notes: 4 lets the client forbid creation; 7 adds leader epochs; 8 adds authorized
operations (those of the cluster only up to 10, then DescribeCluster has them); 10 adds topic
ids, 12 lets topics be asked for by id (if one id is given, names are passed over); 13 adds an
error code on top.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable
from typing import Any, Final

from drumlin.broker.cluster_view import (
    CLUSTER_OPERATIONS,
    OPERATIONS_NOT_ASKED,
    TOPIC_OPERATIONS,
    leadership,
    visible_brokers,
)
from drumlin.broker.context import RequestContext
from drumlin.broker.topics import PARTITIONS_PER_REQUEST_MAX, create_automatically
from drumlin.metadata.image import TopicState
from drumlin.metadata.names import INTERNAL_TOPICS, check_topic_name
from drumlin.wire.errors import ErrorCode, KafkaError
from drumlin.wire.messages import ZERO, Shape

_log = logging.getLogger(__name__)

_BY_ID_FROM_VERSION: Final = 12


def handle(context: RequestContext, request: Any, shape: Shape) -> Any:
    wanted = request.topics
    image = context.broker.metadata.image
    if wanted is None or (context.version == 0 and not wanted):
        return _respond(context, request, shape, image.topics.values())
    refusal = _refusal(context.version, wanted)
    if refusal is not None:
        return _refuse(shape, wanted, refusal)
    ids = tuple(dict.fromkeys(filter(None, (getattr(each, "topic_id", None) for each in wanted))))
    if ids:
        found = [image.topics_by_id[each] for each in ids if each in image.topics_by_id]
        unknown_ids = [
            _topic_error(request, shape, ErrorCode.unknown_topic_id, None, each)
            for each in ids
            if each not in image.topics_by_id
        ]
        return _respond(context, request, shape, found, before=unknown_ids)
    names = tuple(dict.fromkeys(each.name for each in wanted))
    missing = {name: None for name in names if name not in image.topics}
    if missing and _may_create(context, request):
        return _create_and_respond(context, request, shape, names, missing)
    return _respond_by_name(context, request, shape, names, missing)


def _refusal(version: int, wanted: Iterable[Any]) -> ErrorCode | None:
    """Why the whole request is wrong, if it is."""
    has_id = any(getattr(each, "topic_id", None) for each in wanted)
    is_nameless = any(each.name is None for each in wanted)
    if version < _BY_ID_FROM_VERSION:
        return ErrorCode.invalid_request if has_id or is_nameless else None
    return ErrorCode.unknown_server_error if is_nameless and not has_id else None


def _refuse(shape: Shape, wanted: Iterable[Any], code: ErrorCode) -> Any:
    topics = tuple(
        shape(
            "MetadataResponseTopic",
            error_code=code,
            name=each.name or "",
            topic_id=each.topic_id,
            is_internal=False,
            partitions=(),
            topic_authorized_operations=OPERATIONS_NOT_ASKED,
        )
        for each in wanted
    )
    return shape(
        "MetadataResponse",
        throttle_time=ZERO,
        brokers=(),
        cluster_id=None,
        controller_id=-1,
        topics=topics,
        cluster_authorized_operations=OPERATIONS_NOT_ASKED,
        error_code=code,
    )


def _may_create(context: RequestContext, request: Any) -> bool:
    allowed: bool = getattr(request, "allow_auto_topic_creation", True)
    return allowed and context.broker.config.auto_create_topics_enable


async def _create_and_respond(
    context: RequestContext,
    request: Any,
    shape: Shape,
    names: tuple[str, ...],
    missing: Collection[str],
) -> Any:
    wanted = [name for name in missing if _is_valid(name)][:PARTITIONS_PER_REQUEST_MAX]
    outcomes = await asyncio.gather(
        *(create_automatically(context.broker, name) for name in wanted), return_exceptions=True
    )
    for outcome in outcomes:
        if isinstance(outcome, KafkaError):
            _log.info("a topic asked for by name was not created: %s", outcome)
        elif isinstance(outcome, BaseException):
            raise outcome
    return _respond_by_name(context, request, shape, names, missing)


def _is_valid(name: str) -> bool:
    try:
        check_topic_name(name)
    except KafkaError:
        return False
    return True


def _respond_by_name(
    context: RequestContext,
    request: Any,
    shape: Shape,
    names: Iterable[str],
    missing: Collection[str],
) -> Any:
    topics = context.broker.metadata.image.topics
    found = [topics[name] for name in names if name not in missing and name in topics]
    errors = [
        _topic_error(
            request,
            shape,
            ErrorCode.unknown_topic_or_partition
            if _is_valid(name)
            else ErrorCode.invalid_topic_exception,
            name,
            None,
        )
        for name in missing
    ]
    return _respond(context, request, shape, found, after=errors)


def _respond(
    context: RequestContext,
    request: Any,
    shape: Shape,
    found: Iterable[TopicState],
    *,
    before: Iterable[Any] = (),
    after: Iterable[Any] = (),
) -> Any:
    image = context.broker.metadata.image
    asked_cluster = getattr(request, "include_cluster_authorized_operations", False)
    return shape(
        "MetadataResponse",
        throttle_time=ZERO,
        brokers=tuple(
            shape(
                "MetadataResponseBroker",
                node_id=broker.node_id,
                host=endpoint.host,
                port=endpoint.port,
                rack=broker.rack,
            )
            for broker, endpoint in visible_brokers(context)
        ),
        cluster_id=image.cluster_id,
        controller_id=image.controller_id,
        topics=(*before, *(_topic(context, request, shape, topic) for topic in found), *after),
        cluster_authorized_operations=(
            CLUSTER_OPERATIONS if asked_cluster else OPERATIONS_NOT_ASKED
        ),
        error_code=ErrorCode.none,
    )


def _topic(context: RequestContext, request: Any, shape: Shape, topic: TopicState) -> Any:
    partitions = []
    for state in topic.partitions:
        led = leadership(context, topic.name, state)
        partitions.append(
            shape(
                "MetadataResponsePartition",
                error_code=led.error,
                partition_index=state.index,
                leader_id=led.leader,
                leader_epoch=state.leader_epoch,
                replica_nodes=state.replicas,
                isr_nodes=led.isr,
                offline_replicas=led.offline_replicas,
            )
        )
    return shape(
        "MetadataResponseTopic",
        error_code=ErrorCode.none,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=tuple(partitions),
        topic_authorized_operations=_topic_operations(request),
    )


def _topic_error(
    request: Any, shape: Shape, code: ErrorCode, name: str | None, topic_id: Any
) -> Any:
    is_asked_by_name = name is not None
    return shape(
        "MetadataResponseTopic",
        error_code=code,
        name=name,
        topic_id=topic_id,
        is_internal=name in INTERNAL_TOPICS,
        partitions=(),
        topic_authorized_operations=(
            _topic_operations(request) if is_asked_by_name else OPERATIONS_NOT_ASKED
        ),
    )


def _topic_operations(request: Any) -> int:
    asked = getattr(request, "include_topic_authorized_operations", False)
    return TOPIC_OPERATIONS if asked else OPERATIONS_NOT_ASKED
