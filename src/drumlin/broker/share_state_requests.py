"""The common part of the five share group state APIs: a request for many partitions, and a result
for each of them.

Owns only the shape of request and response; the work is the share coordinator's.
A request that names no group, no topic, or a topic without partitions gets an empty result, as in
Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol
from uuid import UUID

from drumlin.broker.garbage import settled
from drumlin.turns import Pace
from drumlin.wire.errors import ErrorCode, KafkaError
from drumlin.wire.messages import Shape

_NO_TOPIC: Final = UUID(int=0)


#: What is said of one partition, beside its number and an error.
Fields = Mapping[str, object]


class StateRequest(Protocol):
    """The fields that all five requests have."""

    @property
    def group_id(self) -> str: ...

    @property
    def topics(self) -> Sequence[Any]: ...


#: Handles one partition: topic id and the request's partition -> fields of the result.
Ask = Callable[[UUID, Any], Awaitable[Fields]]


async def answer_partitions(
    request: StateRequest, shape: Shape, class_name: str, blank: Fields, ask: Ask
) -> tuple[Any, ...]:
    """The results, of the class that is so named: one for each topic.

    `blank` are the fields of a partition that has an error.
    """
    results, pace = [], Pace()
    if not request.group_id or not await _names_partitions(request.topics, pace):
        return ()
    for topic in request.topics:
        partitions = []
        for each in topic.partitions:
            await pace.give_way()
            code, message, fields = ErrorCode.none, None, blank
            try:
                fields = await ask(topic.topic_id or _NO_TOPIC, each)
            except KafkaError as error:
                code, message = error.code, error.message or error.code.name
            partitions.append(
                shape(
                    "PartitionResult",
                    partition=each.partition,
                    error_code=code,
                    error_message=message,
                    **fields,
                )
            )
        told = settled(tuple(partitions))
        results.append(shape(class_name, topic_id=topic.topic_id, partitions=told))
    return tuple(results)


async def _names_partitions(topics: Iterable[Any], pace: Pace) -> bool:
    """Whether every topic names at least one partition."""
    for topic in topics:
        if not topic.partitions:
            return False
        await pace.give_way()
    return True
