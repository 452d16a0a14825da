"""OffsetDelete (key 47), version 0: forget positions of a group (KIP-496).

Partitions that do not exist are answered first, as Apache Kafka does. If the group refuses,
its error stands alone.
"""

from __future__ import annotations

from typing import Any

from drumlin.broker.context import RequestContext
from drumlin.wire.errors import ErrorCode, KafkaError
from drumlin.wire.messages import ZERO, Shape


async def handle(context: RequestContext, request: Any, shape: Shape) -> Any:
    image = context.broker.metadata.image
    results: list[tuple[str, int, ErrorCode]] = []
    known: list[tuple[str, int]] = []
    for topic in request.topics:
        state = image.topics.get(topic.name)
        for part in topic.partitions:
            index = part.partition_index
            if state is None or state.partition(index) is None:
                results.append((topic.name, index, ErrorCode.unknown_topic_or_partition))
            else:
                known.append((topic.name, index))
    code = ErrorCode.none
    try:
        codes = await context.broker.groups.delete_offsets(request.group_id, known)
        results += [(*each, result) for each, result in zip(known, codes, strict=True)]
    except KafkaError as error:
        code, results = error.code, []
    topics: dict[str, list[Any]] = {}
    for name, partition, result in results:
        topics.setdefault(name, []).append(
            shape("OffsetDeleteResponsePartition", partition_index=partition, error_code=result)
        )
    if code is ErrorCode.none:
        # Unknown topics are answered even where no partition of them is named.
        for topic in request.topics:
            if topic.name not in image.topics:
                topics.setdefault(topic.name, [])
    return shape(
        "OffsetDeleteResponse",
        error_code=code,
        throttle_time=ZERO,
        topics=tuple(
            shape("OffsetDeleteResponseTopic", name=name, partitions=tuple(partitions))
            for name, partitions in topics.items()
        ),
    )
