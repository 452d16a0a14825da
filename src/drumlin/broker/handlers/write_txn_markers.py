"""WriteTxnMarkers (key 27), versions 1-2: the ends of transactions, into their partitions.

It comes from transaction coordinators of other brokers, and from administrators who end a
transaction that its coordinator does not know (kafka-transactions.sh --abort).

- Every partition is answered by itself; producers are answered once, however often they stand
  in the request, and not at all without partitions.
- A second marker of a request is written when the first one is.

Version notes: 2 says which generation of transactions the marker is of (KIP-890).
"""

from __future__ import annotations

from typing import Any, Final

from drumlin.broker.context import RequestContext
from drumlin.broker.markers import write_markers
from drumlin.coordination.transactions.markers import Marker, TopicPartition
from drumlin.turns import Work, let_go
from drumlin.wire.errors import ErrorCode
from drumlin.wire.messages import Shape

_FORGOTTEN_AT_ONCE_MAX: Final = 1000

Codes = dict[TopicPartition, ErrorCode]


async def handle(context: RequestContext, request: Any, shape: Shape) -> Any:
    codes: dict[int, Codes] = {}
    turns = context.broker.turns
    for each in request.markers:
        partitions = await turns.run(_partitions(each.topics))
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
                await turns.run(_add(known, written))
            if len(partitions) > _FORGOTTEN_AT_ONCE_MAX:
                await turns.run(let_go(partitions))
    return _respond(shape, codes)


def _add(known: Codes, written: Codes) -> Work[None]:
    for key, code in written.items():
        known[key] = code
        yield
    yield from let_go(written)


def _partitions(topics: Any) -> Work[list[TopicPartition]]:
    partitions = []
    for topic in topics:
        yield
        for index in topic.partition_indexes:
            partitions.append((topic.name, index))
            yield
    return partitions


def _respond(shape: Shape, codes: dict[int, Codes]) -> Work[Any]:
    results = []
    for producer_id, each in codes.items():
        results.append((yield from _result(shape, producer_id, each)))
    yield from let_go(codes)
    return shape("WriteTxnMarkersResponse", markers=tuple(results))


def _result(shape: Shape, producer_id: int, codes: Codes) -> Work[Any]:
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
    yield from let_go(codes, partitions)
    return shape("WritableTxnMarkerResult", producer_id=producer_id, topics=tuple(topics))
