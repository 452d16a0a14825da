"""The common part of the five share group state APIs: a request for many partitions, and a result
for each of them.

Owns only the shape of request and response; the work is the share coordinator's.
A request that names no group, no topic, or a topic without partitions gets an empty result, as in
Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Final, Protocol
from uuid import UUID

from drumlin.broker.loop.garbage import settled
from drumlin.turns import give_way, side_by_side
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.messages import Shape

_NO_TOPIC: Final = UUID(int=0)
#: Partitions that are asked for side by side: a millisecond's worth.
_ASKED_AT_ONCE: Final = 8
_LISTED_AT_ONCE: Final = 1000


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
    if not request.group_id or not await _names_partitions(request.topics):
        return ()

    async def answer(place: tuple[UUID, Any]) -> Any:
        code, message, fields = ErrorCode.none, None, blank
        topic_id, wanted = place
        try:
            fields = await ask(topic_id, wanted)
        except KafkaError as error:
            code, message = error.code, error.message or error.code.name
        return shape(
            "PartitionResult",
            partition=wanted.partition,
            error_code=code,
            error_message=message,
            **fields,
        )

    places: list[tuple[UUID, Any]] = []
    for topic in request.topics:
        topic_id = topic.topic_id or _NO_TOPIC
        for first in range(0, len(topic.partitions), _LISTED_AT_ONCE):
            some = topic.partitions[first : first + _LISTED_AT_ONCE]
            places += [(topic_id, each) for each in some]
            await give_way()
    # Side by side, as each may wait for replicas.
    answers = await side_by_side(answer, places, _ASKED_AT_ONCE)
    results, told = [], iter(answers)
    for topic in request.topics:
        partitions = settled(tuple(islice(told, len(topic.partitions))))
        results.append(shape(class_name, topic_id=topic.topic_id, partitions=partitions))
        await give_way()
    return tuple(results)


async def _names_partitions(topics: Iterable[Any]) -> bool:
    """Whether every topic names at least one partition."""
    for topic in topics:
        if not topic.partitions:
            return False
        await give_way()
    return True
