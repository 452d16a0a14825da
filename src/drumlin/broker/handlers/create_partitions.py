"""CreatePartitions (key 37), versions 0-3: increase the number of partitions of topics.

Each topic is answered by itself; a name given twice is an error for that name. A request for too
many new partitions in total is refused as a whole, before any is created. Existing records stay
where they are, but producers may send a key to another partition than before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from drumlin.broker.context import RequestContext
from drumlin.broker.quotas.mutations import Mutations, throttle_time_of
from drumlin.broker.rights.acls import Kind, Operation
from drumlin.broker.rights.denials import DENIED
from drumlin.broker.topics.topics import (
    PARTITIONS_PER_REQUEST_MAX,
    Growth,
    check_added_total,
    plan_partitions,
)
from drumlin.turns import give_way, side_by_side
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.messages import ZERO
from drumlin.wire.protocol.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

#: Without a message, as in Apache Kafka.
_DENIED: Final = KafkaError(DENIED[Kind.TOPIC])
#: From this version on, requests that exceed a quota on partition changes are refused (KIP-599).
_STRICT_FROM: Final = 3


async def handle(
    context: RequestContext, request: CreatePartitionsRequest
) -> CreatePartitionsResponse:
    broker = context.broker
    single, refused = await _sort(context, request.topics)
    try:
        if request.timeout <= ZERO:
            raise KafkaError(ErrorCode.request_timed_out)
        await check_added_total(broker, map(_growth, single))
    except KafkaError as error:
        results = refused + await _refuse(single, error)
        return _respond(results)

    mutations = context.mutations(_STRICT_FROM)

    async def grow(topic: CreatePartitionsTopic) -> CreatePartitionsTopicResult:
        return await _grow(context, request, topic, mutations)

    results = refused + await side_by_side(grow, single)
    return _respond(results, throttle_time_of(mutations))


def _respond(
    results: Sequence[CreatePartitionsTopicResult], throttle_time: timedelta = ZERO
) -> CreatePartitionsResponse:
    return CreatePartitionsResponse(throttle_time=throttle_time, results=tuple(results))


async def _sort(
    context: RequestContext,
    topics: Sequence[CreatePartitionsTopic],
) -> tuple[list[CreatePartitionsTopic], list[CreatePartitionsTopicResult]]:
    """The topics that are named once and may be altered, and the answers for the others."""
    named: Counter[str] = Counter()
    for topic in topics:
        named[topic.name] += 1
        await give_way()
    refusal = KafkaError(ErrorCode.invalid_request, "named more than once in one request")
    refused = []
    for name, count in named.items():
        if count > 1:
            refused.append(_result(name, refusal))
        await give_way()
    single = []
    for topic in topics:
        if named[topic.name] == 1:
            if context.may(Operation.ALTER, Kind.TOPIC, topic.name):
                single.append(topic)
            else:
                refused.append(_result(topic.name, _DENIED))
        await give_way()
    return single, refused


def _growth(topic: CreatePartitionsTopic) -> Growth:
    assigned = None if topic.assignments is None else len(topic.assignments)
    return Growth(topic.name, topic.count, assigned)


async def _refuse(
    topics: Sequence[CreatePartitionsTopic], error: KafkaError
) -> list[CreatePartitionsTopicResult]:
    results = []
    for topic in topics:
        results.append(_result(topic.name, error))
        await give_way()
    return results


async def _grow(
    context: RequestContext,
    request: CreatePartitionsRequest,
    topic: CreatePartitionsTopic,
    mutations: Mutations | None,
) -> CreatePartitionsTopicResult:
    broker = context.broker
    assignments = None
    if topic.assignments is not None:
        # One more than the limit is enough to refuse the request.
        at_most = topic.assignments[: PARTITIONS_PER_REQUEST_MAX + 1]
        assignments = [each.broker_ids for each in at_most]
    try:
        added = plan_partitions(broker, topic.name, topic.count, assignments)
        context.require(Operation.ALTER, Kind.TOPIC, topic.name)  # perhaps revoked meanwhile
        if mutations is not None:
            mutations.take(len(added))
        if not request.validate_only:
            first_index = topic.count - len(added)
            await broker.metadata.add_partitions(topic.name, first_index, added)
    except KafkaError as error:
        return _result(topic.name, error)
    return _result(topic.name, None)


def _result(name: str, error: KafkaError | None) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(
        name=name,
        error_code=error.code if error else ErrorCode.none,
        error_message=error.message if error else None,
    )
