"""Metadata (key 3), versions 0-13: brokers, and topics with their leaders.

- A null list of topics (in version 0 an empty one) means all topics.
- A topic that does not exist is created where client and broker allow it. As with Apache Kafka,
  that request is still answered with UNKNOWN_TOPIC_OR_PARTITION.
- Each topic is answered once, however often it is named.
- A topic that the client may not describe is left out of a request for all topics, and refused
  if it is named, whether or not it exists. Every client may see the brokers.

Version notes: 4 lets the client forbid creation; 7 adds leader epochs; 8 adds authorized
operations (after 10 no longer the cluster's, which DescribeCluster returns); 10 adds topic ids;
12 lets the client name topics by id (if one id is given, names are ignored); 13 adds a top-level
error code.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from drumlin.broker.context import RequestContext
from drumlin.broker.parts.cluster_view import OPERATIONS_NOT_ASKED, visible_brokers
from drumlin.broker.rights.acls import Kind, Operation
from drumlin.broker.several_apis.creation_right import may_create
from drumlin.broker.topics.topic_pieces import with_operations
from drumlin.broker.topics.topics import PARTITIONS_PER_REQUEST_MAX, create_automatically
from drumlin.metadata.image import TopicState
from drumlin.metadata.names import INTERNAL_TOPICS, check_topic_name
from drumlin.turns import give_way
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.messages import ZERO, encoded
from drumlin.wire.protocol.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseTopic,
)
from drumlin.wire.schema.parts import EncodedItems

_log = logging.getLogger(__name__)

_BY_ID_FROM_VERSION: Final = 12
_CREATED_AT_A_TIME: Final = 50


@dataclass(slots=True)
class _Plan:
    """The topics of the answer: existing ones, and entries that are only errors."""

    topics: list[TopicState] = field(default_factory=list)
    unknown_ids: list[UUID] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    #: Topics that the client may not create, and those that it may not see.
    not_creatable: list[str] = field(default_factory=list)
    hidden: list[str] = field(default_factory=list)
    hidden_ids: list[UUID] = field(default_factory=list)
    refusal: ErrorCode | None = None


async def handle(context: RequestContext, request: MetadataRequest) -> MetadataResponse:
    wanted = request.topics
    if wanted is None or (context.version == 0 and not wanted):
        return await _respond(context, request, await _all(context))
    plan = await _plan(context, wanted)
    if plan.refusal is not None:
        return await _refuse(wanted, plan.refusal)
    if plan.missing and _creates(context, request):
        await _sort_out(context, plan)
        await _create(context, plan.missing)
    return await _respond(context, request, plan)


async def _all(context: RequestContext) -> _Plan:
    topics = list(context.broker.metadata.image.topics.values())
    may = context.topic_right(Operation.DESCRIBE, is_named=False)
    if may is None:
        return _Plan(topics)
    plan = _Plan()
    for topic in topics:
        if may(topic.name):
            plan.topics.append(topic)
        await give_way()
    return plan


async def _plan(context: RequestContext, wanted: Sequence[MetadataRequestTopic]) -> _Plan:
    ids: dict[UUID, None] = {}
    names: dict[str, None] = {}
    is_nameless = False
    for each in wanted:
        if each.topic_id:
            ids[each.topic_id] = None
        if each.name is None:
            is_nameless = True
        else:
            names[each.name] = None
        await give_way()
    refusal = _refusal(context.version, has_id=bool(ids), is_nameless=is_nameless)
    if refusal is not None:
        return _Plan(refusal=refusal)
    return await _by_id(context, ids) if ids else await _by_name(context, names)


async def _by_id(context: RequestContext, ids: Iterable[UUID]) -> _Plan:
    known, may = context.broker.metadata.image.topics_by_id, context.topic_right(Operation.DESCRIBE)
    plan = _Plan()
    for topic_id in ids:
        topic = known.get(topic_id)
        if topic is None:  # ids are no secret
            plan.unknown_ids.append(topic_id)
        elif may is not None and not may(topic.name):
            plan.hidden_ids.append(topic_id)
        else:
            plan.topics.append(topic)
        await give_way()
    return plan


async def _by_name(context: RequestContext, names: Iterable[str]) -> _Plan:
    known, may = context.broker.metadata.image.topics, context.topic_right(Operation.DESCRIBE)
    plan = _Plan()
    for name in names:
        if may is not None and not may(name):
            plan.hidden.append(name)
        elif (topic := known.get(name)) is None:
            plan.missing.append(name)
        else:
            plan.topics.append(topic)
        await give_way()
    return plan


async def _sort_out(context: RequestContext, plan: _Plan) -> None:
    """Take out the missing topics that the principal may not create."""
    missing, plan.missing = plan.missing, []
    for name in missing:
        may = may_create(context, name)
        (plan.missing if may else plan.not_creatable).append(name)
        await give_way()


def _refusal(version: int, *, has_id: bool, is_nameless: bool) -> ErrorCode | None:
    """The error of the whole request, or None."""
    if version < _BY_ID_FROM_VERSION:
        return ErrorCode.invalid_request if has_id or is_nameless else None
    return ErrorCode.unknown_server_error if is_nameless and not has_id else None


async def _refuse(wanted: Sequence[MetadataRequestTopic], code: ErrorCode) -> MetadataResponse:
    topics = []
    for each in wanted:
        topic = MetadataResponseTopic(
            error_code=code,
            name=each.name or "",
            topic_id=each.topic_id,
            is_internal=False,
            partitions=(),
            topic_authorized_operations=OPERATIONS_NOT_ASKED,
        )
        topics.append(topic)
        await give_way()
    return MetadataResponse(
        throttle_time=ZERO,
        brokers=(),
        cluster_id=None,
        controller_id=-1,
        topics=tuple(topics),
        cluster_authorized_operations=OPERATIONS_NOT_ASKED,
        error_code=code,
    )


def _creates(context: RequestContext, request: MetadataRequest) -> bool:
    """Whether missing topics are to be created."""
    return request.allow_auto_topic_creation and context.broker.config.auto_create_topics_enable


async def _create(context: RequestContext, missing: Sequence[str]) -> None:
    wanted = missing[:PARTITIONS_PER_REQUEST_MAX]
    for first in range(0, len(wanted), _CREATED_AT_A_TIME):
        names = [
            name
            for name in wanted[first : first + _CREATED_AT_A_TIME]
            if _is_valid(name) and may_create(context, name)
        ]
        outcomes = await asyncio.gather(
            *(create_automatically(context.broker, name) for name in names), return_exceptions=True
        )
        for outcome in outcomes:
            if isinstance(outcome, KafkaError):
                _log.info("a topic requested by name was not created: %s", outcome)
            elif isinstance(outcome, BaseException):
                raise outcome


def _is_valid(name: str) -> bool:
    try:
        check_topic_name(name)
    except KafkaError:
        return False
    return True


async def _respond(
    context: RequestContext, request: MetadataRequest, plan: _Plan
) -> MetadataResponse:
    version, image = context.version, context.broker.metadata.image
    tells_operations = request.include_topic_authorized_operations
    variant = context.broker.topic_pieces.variant(version)
    pieces = []
    for topic_id in plan.unknown_ids:
        context.errors[ErrorCode.unknown_topic_id] += 1
        pieces.append(_error(version, ErrorCode.unknown_topic_id, None, topic_id))
        await give_way()
    for topic in plan.topics:
        piece = variant.ready(topic)
        if piece is None:
            piece = await variant.encode(topic)
        if tells_operations:
            operations = context.operations(Kind.TOPIC, topic.name)
            piece = with_operations(version, piece, operations)
        pieces.append(piece)
        await give_way()
    for name in plan.missing:
        code = ErrorCode.unknown_topic_or_partition
        if not _is_valid(name):
            code = ErrorCode.invalid_topic_exception
        operations = OPERATIONS_NOT_ASKED
        if tells_operations:
            operations = context.operations(Kind.TOPIC, name)
        context.errors[code] += 1
        pieces.append(_error(version, code, name, None, operations))
        await give_way()
    denials = await _denials(version, plan)
    context.errors[ErrorCode.topic_authorization_failed] += len(denials)
    pieces += denials
    return MetadataResponse(
        throttle_time=ZERO,
        brokers=tuple(
            MetadataResponseBroker(
                node_id=broker.node_id,
                host=endpoint.host,
                port=endpoint.port,
                rack=broker.rack,
            )
            for broker, endpoint in visible_brokers(context.broker, context.listener)
        ),
        cluster_id=image.cluster_id,
        controller_id=image.controller_id,
        topics=EncodedItems(pieces),
        cluster_authorized_operations=(
            context.cluster_operations()
            if request.include_cluster_authorized_operations
            else OPERATIONS_NOT_ASKED
        ),
        error_code=ErrorCode.none,
    )


async def _denials(version: int, plan: _Plan) -> list[bytes]:
    code, pieces = ErrorCode.topic_authorization_failed, []
    for name in plan.not_creatable:
        pieces.append(_error(version, code, name, None))
        await give_way()
    for topic_id in plan.hidden_ids:
        pieces.append(_error(version, code, None, topic_id))
        await give_way()
    for name in plan.hidden:
        pieces.append(_error(version, code, name, None, is_internal=False))
        await give_way()
    return pieces


def _error(
    version: int,
    code: ErrorCode,
    name: str | None,
    topic_id: UUID | None,
    operations: int = OPERATIONS_NOT_ASKED,
    *,
    is_internal: bool | None = None,
) -> bytes:
    """The encoded answer for a topic that has only an error."""
    topic = MetadataResponseTopic(
        error_code=code,
        name=name,
        topic_id=topic_id,
        is_internal=name in INTERNAL_TOPICS if is_internal is None else is_internal,
        partitions=(),
        topic_authorized_operations=operations,
    )
    return encoded("metadata", version, topic)
