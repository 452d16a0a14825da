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
from drumlin.wire.errors import ErrorCode
from drumlin.wire.messages import Shape


async def handle(context: RequestContext, request: Any, shape: Shape) -> Any:
    codes: dict[int, dict[TopicPartition, ErrorCode]] = {}
    for each in request.markers:
        partitions = tuple(
            (topic.name, index) for topic in each.topics for index in topic.partition_indexes
        )
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
            codes.setdefault(each.producer_id, {}).update(written)
    results = tuple(_result(shape, producer_id, each) for producer_id, each in codes.items())
    return shape("WriteTxnMarkersResponse", markers=results)


def _result(shape: Shape, producer_id: int, codes: dict[TopicPartition, ErrorCode]) -> Any:
    topics: dict[str, list[Any]] = {}
    for (topic, index), code in codes.items():
        topics.setdefault(topic, []).append(
            shape("WritableTxnMarkerPartitionResult", partition_index=index, error_code=code)
        )
    return shape(
        "WritableTxnMarkerResult",
        producer_id=producer_id,
        topics=tuple(
            shape("WritableTxnMarkerTopicResult", name=name, partitions=tuple(partitions))
            for name, partitions in topics.items()
        ),
    )
