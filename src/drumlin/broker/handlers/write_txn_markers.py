"""WriteTxnMarkers (key 27), versions 1-2: the ends of transactions, into their partitions.

It comes from transaction coordinators of other brokers, and from administrators that end a
transaction that its coordinator does not know (kafka-transactions.sh --abort).

- Every partition is answered by itself; producers are answered once, however often they stand
  in the request, and not at all without partitions.
- A second marker of a request is written when the first one is.

Version notes: 2 adds the transaction version of the marker (KIP-890).
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Final

from drumlin.broker.context import RequestContext
from drumlin.broker.garbage import settled
from drumlin.broker.markers import write_markers
from drumlin.coordination.transactions.markers import Marker, TopicPartition
from drumlin.distinct import Distinct, Growing
from drumlin.turns import Work
from drumlin.wire.errors import ErrorCode
from drumlin.wire.messages import Shape

if TYPE_CHECKING:
    from kio.schema.write_txn_markers.v2.request import (
        WritableTxnMarkerTopic,
        WriteTxnMarkersRequest,
    )
    from kio.schema.write_txn_markers.v2.response import (
        WritableTxnMarkerPartitionResult,
        WritableTxnMarkerResult,
        WriteTxnMarkersResponse,
    )

#: Partitions of a marker that are written to before the answer about them is put together.
_WRITTEN_TOGETHER: Final = 1000

Codes = Growing[TopicPartition, ErrorCode]


async def handle(
    context: RequestContext, request: WriteTxnMarkersRequest, shape: Shape
) -> Work[WriteTxnMarkersResponse]:
    by_producer: Growing[int, Codes] = Growing()
    turns = context.broker.turns
    for each in request.markers:
        partitions = await turns.run(_partitions(each.topics))
        left = iter(partitions)
        while some := list(islice(left, _WRITTEN_TOGETHER)):
            marker = Marker(
                each.producer_id,
                each.producer_epoch,
                each.coordinator_epoch,
                each.transaction_result,
                some,
                getattr(each, "transaction_version", 0),
            )
            codes = by_producer.setdefault(each.producer_id, Growing())
            for partition, code in (await write_markers(context.broker, marker)).items():
                codes[partition] = code
        if len(partitions) > _WRITTEN_TOGETHER:
            await turns.run(partitions.let_go())
    return _respond(shape, by_producer)


def _partitions(topics: Iterable[WritableTxnMarkerTopic]) -> Work[Distinct[TopicPartition]]:
    partitions: Distinct[TopicPartition] = Distinct()
    for topic in topics:
        yield
        yield from partitions.add((topic.name, index) for index in topic.partition_indexes)
    return partitions


def _respond(shape: Shape, by_producer: Growing[int, Codes]) -> Work[WriteTxnMarkersResponse]:
    results = []
    for producer_id, codes in by_producer.items():
        results.append((yield from _result(shape, producer_id, codes)))
        yield
    yield from by_producer.let_go()
    return shape("WriteTxnMarkersResponse", markers=tuple(results))


def _result(shape: Shape, producer_id: int, codes: Codes) -> Work[WritableTxnMarkerResult]:
    partitions: Growing[str, list[WritableTxnMarkerPartitionResult]] = Growing()
    for (topic, index), code in codes.items():
        partitions.setdefault(topic, []).append(
            shape("WritableTxnMarkerPartitionResult", partition_index=index, error_code=code)
        )
        yield
    topics = []
    for name, results in partitions.items():
        told = settled(tuple(results))
        topics.append(shape("WritableTxnMarkerTopicResult", name=name, partitions=told))
        yield
    yield from codes.let_go()
    yield from partitions.let_go()
    return shape("WritableTxnMarkerResult", producer_id=producer_id, topics=settled(tuple(topics)))
