"""CreatePartitions (key 37), versions 0-3: let topics grow to a number of partitions.

Each topic is answered by itself; a name given twice is an error for that name. Only the number
of records tells partitions apart afterwards: keys may move to other partitions than before.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from drumlin.broker.context import RequestContext
from drumlin.broker.topics import plan_partitions
from drumlin.wire.errors import ErrorCode, KafkaError
from drumlin.wire.messages import ZERO, Shape


async def handle(context: RequestContext, request: Any, shape: Shape) -> Any:
    named = Counter(topic.name for topic in request.topics)
    duplicates = [name for name, count in named.items() if count > 1]
    single = [topic for topic in request.topics if named[topic.name] == 1]
    refusal = KafkaError(ErrorCode.invalid_request, "named more than once in one request")
    results = [_result(shape, name, refusal) for name in duplicates]
    results += await asyncio.gather(*(_grow(context, request, shape, topic) for topic in single))
    return shape("CreatePartitionsResponse", throttle_time=ZERO, results=tuple(results))


async def _grow(context: RequestContext, request: Any, shape: Shape, topic: Any) -> Any:
    broker = context.broker
    assignments = None
    if topic.assignments is not None:
        assignments = [each.broker_ids for each in topic.assignments]
    try:
        if request.timeout <= ZERO:
            raise KafkaError(ErrorCode.request_timed_out)
        added = plan_partitions(broker, topic.name, topic.count, assignments)
        if not request.validate_only:
            first_index = topic.count - len(added)
            await broker.metadata.add_partitions(topic.name, first_index, added)
    except KafkaError as error:
        return _result(shape, topic.name, error)
    return _result(shape, topic.name, None)


def _result(shape: Shape, name: str, error: KafkaError | None) -> Any:
    return shape(
        "CreatePartitionsTopicResult",
        name=name,
        error_code=error.code if error else ErrorCode.none,
        error_message=error.message if error else None,
    )
