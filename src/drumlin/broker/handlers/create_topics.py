"""CreateTopics (key 19), versions 2-7: create topics, each by itself.

- A name given twice is an error for that name, answered after the others.
- With `validate_only` the answer is the same, but nothing is created.
- A client that may not describe configurations gets neither the topic's configuration nor its
  numbers of partitions and replicas.
- A request whose timeout is zero or less is answered REQUEST_TIMED_OUT.

Version notes: 4 allows -1 (the broker's default) for the numbers of partitions and replicas; 5
answers with these numbers and the topic's configuration; 6 adds THROTTLING_QUOTA_EXCEEDED; 7 adds
topic ids.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final, NamedTuple

from drumlin.broker.configs.config_entries import created_topic_entries
from drumlin.broker.context import RequestContext
from drumlin.broker.quotas.mutations import Mutations, throttle_time_of
from drumlin.broker.rights.acls import Kind, Operation
from drumlin.broker.several_apis.creation_right import may_create
from drumlin.broker.topics.topics import (
    PARTITIONS_PER_REQUEST_MAX,
    RequestedTopic,
    TopicPlan,
    check_partition_total,
    create_topic,
    plan_topic,
)
from drumlin.turns import give_way, side_by_side
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.messages import ZERO
from drumlin.wire.protocol.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

_CONFIGS_FROM: Final = 5
#: From this version on, requests that exceed a quota on partition changes are refused (KIP-599).
_STRICT_FROM: Final = 6
#: Keys per topic; only some forty have a meaning.
_KEYS_MAX: Final = 2_000
_REPEATED: Final = KafkaError(ErrorCode.invalid_request, "named more than once in one request")
_DENIED: Final = KafkaError(ErrorCode.topic_authorization_failed, "Authorization failed.")


class _Sorted(NamedTuple):
    """A request's topics to create, the names that occur more than once in it, and the names of
    topics that the client may not create.
    """

    requested: list[RequestedTopic]
    duplicates: Sequence[str]
    denied: Sequence[str]


async def handle(context: RequestContext, request: CreateTopicsRequest) -> CreateTopicsResponse:
    wanted = await _sort(context, request.topics)
    try:
        if request.timeout <= ZERO:
            raise KafkaError(ErrorCode.request_timed_out)
        check_partition_total(context.broker, wanted.requested)
    except KafkaError as error:
        refused = [each.name for each in wanted.requested]
        return await _respond((), {error: [*refused, *wanted.duplicates], _DENIED: wanted.denied})
    # All are checked against the existing topics only: names within one request may collide.
    plans = await _plan_all(context, wanted.requested)
    mutations = context.mutations(_STRICT_FROM)

    async def create(planned: tuple[str, TopicPlan | KafkaError]) -> CreatableTopicResult:
        return await _create(context, *planned, mutations, request.validate_only)

    results = await side_by_side(create, plans)
    others = {_REPEATED: wanted.duplicates, _DENIED: wanted.denied}
    return await _respond(results, others, throttle_time_of(mutations))


async def _respond(
    results: Sequence[CreatableTopicResult],
    refused: Mapping[KafkaError, Sequence[str]],
    throttle_time: timedelta = ZERO,
) -> CreateTopicsResponse:
    topics = list(results)
    for error, names in refused.items():
        for name in names:
            topics.append(_failed(name, error))
            await give_way()
    return CreateTopicsResponse(throttle_time=throttle_time, topics=tuple(topics))


async def _sort(context: RequestContext, topics: Sequence[CreatableTopic]) -> _Sorted:
    named: Counter[str] = Counter()
    for topic in topics:
        named[topic.name] += 1
        await give_way()
    requested, denied = [], []
    for topic in topics:
        if named[topic.name] == 1:
            if may_create(context, topic.name):
                requested.append(_requested(topic))
            else:
                denied.append(topic.name)
        await give_way()
    duplicates = []
    for name, count in named.items():
        if count > 1:
            duplicates.append(name)
        await give_way()
    return _Sorted(requested, duplicates, denied)


def _requested(topic: CreatableTopic) -> RequestedTopic:
    # One more than the limit is enough to refuse the request.
    assignments = topic.assignments[: PARTITIONS_PER_REQUEST_MAX + 1]
    return RequestedTopic(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        tuple((each.partition_index, each.broker_ids) for each in assignments),
        tuple((each.name, each.value) for each in topic.configs[: _KEYS_MAX + 1]),
    )


async def _plan_all(
    context: RequestContext, requested: Sequence[RequestedTopic]
) -> list[tuple[str, TopicPlan | KafkaError]]:
    plans = []
    for topic in requested:
        plans.append((topic.name, _plan(context, topic)))
        await give_way()
    return plans


def _plan(context: RequestContext, topic: RequestedTopic) -> TopicPlan | KafkaError:
    try:
        if len(topic.configs) > _KEYS_MAX:
            message = f"{_KEYS_MAX} keys of a topic can be set at once"
            raise KafkaError(ErrorCode.policy_violation, message)
        return plan_topic(context.broker, topic)
    except KafkaError as error:
        return error.with_traceback(
            None
        )  # a traceback would refer to the list that holds the error


async def _create(
    context: RequestContext,
    name: str,
    plan: TopicPlan | KafkaError,
    mutations: Mutations | None,
    validate_only: bool,
) -> CreatableTopicResult:
    if isinstance(plan, KafkaError):
        return _failed(name, plan)
    if not may_create(context, name):  # the right was revoked meanwhile
        return _failed(name, _DENIED)
    topic_id = uuid.uuid4()
    try:
        if mutations is not None:
            mutations.take(len(plan.assignment))
        if not validate_only:
            topic_id = (await create_topic(context.broker, plan)).topic_id
    except KafkaError as error:
        return _failed(name, error)
    if not context.may(Operation.DESCRIBE_CONFIGS, Kind.TOPIC, name):
        return CreatableTopicResult(
            name=name,
            topic_id=topic_id,
            error_code=ErrorCode.none,
            error_message=None,
            topic_config_error_code=ErrorCode.topic_authorization_failed.value,
            configs=(),
        )
    return CreatableTopicResult(
        name=name,
        topic_id=topic_id,
        error_code=ErrorCode.none,
        error_message=None,
        num_partitions=len(plan.assignment),
        replication_factor=len(plan.assignment[0]),
        configs=_configs(context, plan),
    )


def _configs(context: RequestContext, plan: TopicPlan) -> tuple[CreatableTopicConfigs, ...]:
    if context.version < _CONFIGS_FROM:
        return ()
    return tuple(
        CreatableTopicConfigs(
            name=entry.name,
            value=entry.value,
            read_only=entry.is_read_only,
            config_source=entry.source,
            is_sensitive=entry.is_sensitive,
        )
        for entry in created_topic_entries(context.broker.config, plan.configs)
    )


def _failed(name: str, error: KafkaError) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=name,
        topic_id=None,
        error_code=error.code,
        error_message=error.message,
        num_partitions=-1,
        replication_factor=-1,
        configs=(),
    )
