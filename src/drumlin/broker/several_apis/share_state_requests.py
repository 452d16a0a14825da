"""The common part of the five share group state APIs: a request for many partitions, and a result
for each. Only brokers may send them.

Owns only the form of request and response; the share coordinator does the work. A request without a
group or topic, or with a topic without partitions, gets an empty result, as in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import islice
from typing import Any, Final, Protocol, TypeVar
from uuid import UUID

from drumlin.broker.context import RequestContext
from drumlin.broker.loop.garbage import settled
from drumlin.broker.rights.acls import Kind, Operation
from drumlin.broker.rights.denials import denied
from drumlin.turns import give_way, side_by_side
from drumlin.wire.error_codes import KafkaError

_NO_TOPIC: Final = UUID(int=0)
#: Partitions that are handled concurrently; that many take a millisecond.
_ASKED_AT_ONCE: Final = 8
_LISTED_AT_ONCE: Final = 1000

Result = TypeVar("Result")
TopicResult = TypeVar("TopicResult")


class StateRequest(Protocol):
    """The fields that all five requests have."""

    @property
    def group_id(self) -> str: ...

    @property
    def topics(self) -> Sequence[Any]: ...


async def answer_partitions(
    context: RequestContext,
    request: StateRequest,
    ask: Callable[[UUID, Any], Awaitable[Result]],
    refused: Callable[..., Result],
    topic_result: Callable[..., TopicResult],
) -> tuple[TopicResult, ...]:
    """The results, one for each topic.

    Args:
        context: the request's; without the right of a broker all partitions are refused.
        request: names the partitions.
        ask: returns the result for a topic's id and the request's partition.
        refused: returns the result of a partition for which `ask` raises a `KafkaError`.
        topic_result: returns a topic's result.
    """
    is_broker = context.may_cluster(Operation.CLUSTER_ACTION)
    if is_broker and not (request.group_id and await _names_partitions(request.topics)):
        return ()

    async def answer(place: tuple[UUID, Any]) -> Result:
        topic_id, wanted = place
        try:
            if not is_broker:
                raise denied(Kind.CLUSTER)
            return await ask(topic_id, wanted)
        except KafkaError as error:
            return refused(
                partition=wanted.partition,
                error_code=error.code,
                error_message=error.message or error.code.name,
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
        results.append(topic_result(topic_id=topic.topic_id, partitions=partitions))
        await give_way()
    return tuple(results)


async def _names_partitions(topics: Iterable[Any]) -> bool:
    """Whether every topic names at least one partition."""
    for topic in topics:
        if not topic.partitions:
            return False
        await give_way()
    return True
