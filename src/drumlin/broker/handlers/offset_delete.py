"""OffsetDelete (key 47), version 0: forget positions of a group (KIP-496).

As in Apache Kafka: partitions that do not exist are answered first; a topic that is named twice
is answered twice, unless something did not exist, which brings each topic's answers together. If
the group refuses, its error stands alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from drumlin.broker.context import RequestContext
from drumlin.wire.errors import ErrorCode, KafkaError
from drumlin.wire.messages import ZERO, Shape

#: Of one topic: indexes of partitions, and what became of each.
_Results = list[tuple[int, ErrorCode]]


async def handle(context: RequestContext, request: Any, shape: Shape) -> Any:
    image = context.broker.metadata.image
    unknown: list[tuple[str, tuple[int, ErrorCode] | None]] = []
    known: list[tuple[str, int]] = []
    for topic in request.topics:
        state = image.topics.get(topic.name)
        if state is None:  # it is answered even where no partition of it is named
            unknown.append((topic.name, None))
        for part in topic.partitions:
            index = part.partition_index
            if state is None or state.partition(index) is None:
                unknown.append((topic.name, (index, ErrorCode.unknown_topic_or_partition)))
            else:
                known.append((topic.name, index))
    try:
        codes = await context.broker.groups.delete_offsets(request.group_id, known)
    except KafkaError as error:
        return _response(shape, error.code, ())
    code_of = dict(zip(known, codes, strict=True))
    found = [
        (topic.name, results)
        for topic in request.topics
        if (results := _results_of(topic, code_of))
    ]
    return _response(shape, ErrorCode.none, _together(unknown, found) if unknown else found)


def _results_of(topic: Any, code_of: Mapping[tuple[str, int], ErrorCode]) -> _Results:
    indexes = [part.partition_index for part in topic.partitions]
    return [
        (index, code_of[topic.name, index]) for index in indexes if (topic.name, index) in code_of
    ]


def _together(
    unknown: Iterable[tuple[str, tuple[int, ErrorCode] | None]],
    found: Iterable[tuple[str, _Results]],
) -> Iterable[tuple[str, _Results]]:
    topics: dict[str, _Results] = {}
    for name, result in unknown:
        topics.setdefault(name, []).extend([] if result is None else [result])
    for name, results in found:
        topics.setdefault(name, []).extend(results)
    return topics.items()


def _response(shape: Shape, code: ErrorCode, topics: Iterable[tuple[str, _Results]]) -> Any:
    def partition(index: int, result: ErrorCode) -> Any:
        return shape("OffsetDeleteResponsePartition", partition_index=index, error_code=result)

    return shape(
        "OffsetDeleteResponse",
        error_code=code,
        throttle_time=ZERO,
        topics=tuple(
            shape(
                "OffsetDeleteResponseTopic",
                name=name,
                partitions=tuple(partition(*each) for each in results),
            )
            for name, results in topics
        ),
    )
