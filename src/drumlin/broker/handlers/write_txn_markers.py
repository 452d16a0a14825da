"""WriteTxnMarkers (key 27), versions 1-2: the ends of transactions, into their partitions.

It comes from transaction coordinators of other brokers, and from administrators who end a
transaction that its coordinator does not know (kafka-transactions.sh --abort).

- Every partition is answered by itself; producers are answered once, however often they stand
  in the request, and not at all without partitions.
- A second marker of a request is written when the first one is.

Version notes: 2 says which generation of transactions the marker is of (KIP-890).
"""

from __future__ import annotations

from typing import Any

from drumlin.broker.context import RequestContext
from drumlin.broker.markers import write_markers
from drumlin.coordination.transactions.markers import Marker, TopicPartition
from drumlin.turns import Work, let_go
from drumlin.wire.errors import ErrorCode
from drumlin.wire.messages import Shape


async def handle(context: RequestContext, request: Any, shape: Shape) -> Any:
    codes: dict[int, dict[TopicPartition, ErrorCode]] = {}
    for each in request.markers:
        partitions = await context.broker.turns.run(_partitions(each.topics))
        marker = Marker(
            each.producer_id,
            each.producer_epoch,
            each.coordinator_epoch,
            each.transaction_result,
            partitions,
            getattr(each, "transaction_version", 0),
        )
        if partitions:
            written = await write_markers(context.broker, marker)
            known = codes.setdefault(each.producer_id, written)
            if known is not written:
                known.update(written)
    return _respond(shape, codes)


def _partitions(topics: Any) -> Work[tuple[TopicPartition, ...]]:
    partitions = []
    for topic in topics:
        for index in topic.partition_indexes:
            partitions.append((topic.name, index))
            yield
    return tuple(partitions)


def _respond(shape: Shape, codes: dict[int, dict[TopicPartition, ErrorCode]]) -> Work[Any]:
    results = []
    for producer_id, each in codes.items():
        results.append((yield from _result(shape, producer_id, each)))
    return shape("WriteTxnMarkersResponse", markers=tuple(results))


def _result(shape: Shape, producer_id: int, codes: dict[TopicPartition, ErrorCode]) -> Work[Any]:
    partitions: dict[str, list[Any]] = {}
    for (topic, index), code in codes.items():
        partitions.setdefault(topic, []).append(
            shape("WritableTxnMarkerPartitionResult", partition_index=index, error_code=code)
        )
        yield
    topics = []
    for name, results in partitions.items():
        topics.append(shape("WritableTxnMarkerTopicResult", name=name, partitions=tuple(results)))
        yield
    yield from let_go(codes)
    return shape("WritableTxnMarkerResult", producer_id=producer_id, topics=tuple(topics))
