"""CreateTopics (key 19), versions 2-7: create topics, each by itself.

- A name given twice is an error for that name, answered behind the others.
- `validate_only` answers as if, and creates nothing.
- A request whose time is up before it begins is answered REQUEST_TIMED_OUT.

Version notes: 4 allows -1 (the broker's default) for counts; 5 answers with counts and the
topic's configuration; 7 adds topic ids.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from typing import Any

from drumlin.broker.config_entries import created_topic_entries
from drumlin.broker.context import RequestContext
from drumlin.broker.topics import (
    TopicPlan,
    TopicWish,
    check_partition_total,
    create_topic,
    plan_topic,
)
from drumlin.wire.errors import ErrorCode, KafkaError
from drumlin.wire.messages import ZERO, Shape


async def handle(context: RequestContext, request: Any, shape: Shape) -> Any:
    named = Counter(topic.name for topic in request.topics)
    wishes = [_wish(topic) for topic in request.topics if named[topic.name] == 1]
    duplicates = [name for name, count in named.items() if count > 1]
    try:
        if request.timeout <= ZERO:
            raise KafkaError(ErrorCode.request_timed_out)
        check_partition_total(context.broker, wishes)
    except KafkaError as error:
        results = [_failed(shape, name, error) for name in named]
    else:
        # All are checked against the topics there are now: names within one request may collide.
        plans = [_plan(context, wish) for wish in wishes]
        results = await asyncio.gather(
            *(
                _create(context, shape, wish.name, plan, request.validate_only)
                for wish, plan in zip(wishes, plans, strict=True)
            )
        )
        refusal = KafkaError(ErrorCode.invalid_request, "named more than once in one request")
        results += [_failed(shape, name, refusal) for name in duplicates]
    return shape("CreateTopicsResponse", throttle_time=ZERO, topics=tuple(results))


def _wish(topic: Any) -> TopicWish:
    return TopicWish(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        tuple((each.partition_index, each.broker_ids) for each in topic.assignments),
        tuple((each.name, each.value) for each in topic.configs),
    )


def _plan(context: RequestContext, wish: TopicWish) -> TopicPlan | KafkaError:
    try:
        return plan_topic(context.broker, wish)
    except KafkaError as error:
        return error


async def _create(
    context: RequestContext,
    shape: Shape,
    name: str,
    plan: TopicPlan | KafkaError,
    validate_only: bool,
) -> Any:
    if isinstance(plan, KafkaError):
        return _failed(shape, name, plan)
    topic_id = uuid.uuid4()
    if not validate_only:
        try:
            topic_id = (await create_topic(context.broker, plan)).topic_id
        except KafkaError as error:
            return _failed(shape, name, error)
    return shape(
        "CreatableTopicResult",
        name=name,
        topic_id=topic_id,
        error_code=ErrorCode.none,
        error_message=None,
        num_partitions=len(plan.assignment),
        replication_factor=len(plan.assignment[0]),
        configs=_configs(context, shape, plan),
    )


def _configs(context: RequestContext, shape: Shape, plan: TopicPlan) -> tuple[Any, ...]:
    if not shape.has("CreatableTopicConfigs"):
        return ()
    return tuple(
        shape(
            "CreatableTopicConfigs",
            name=entry.name,
            value=entry.value,
            read_only=entry.is_read_only,
            config_source=entry.source,
            is_sensitive=entry.is_sensitive,
        )
        for entry in created_topic_entries(context.broker.config, plan.configs)
    )


def _failed(shape: Shape, name: str, error: KafkaError) -> Any:
    return shape(
        "CreatableTopicResult",
        name=name,
        topic_id=None,
        error_code=error.code,
        error_message=error.message,
        num_partitions=-1,
        replication_factor=-1,
        configs=(),
    )
