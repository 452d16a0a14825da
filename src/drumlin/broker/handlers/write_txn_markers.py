"""WriteTxnMarkers (key 27), versions 1-2: write transaction markers into partitions.

It is sent by transaction coordinators of other brokers, and by administrators to end a transaction
that its coordinator does not know (kafka-transactions.sh abort).

- Each partition has its own code. A producer that occurs several times in the request is answered
  once; a producer without partitions is left out, unless the whole request is denied.
- A producer's second marker in a request is written after the first one.
- Clients that may alter the cluster, and its brokers, may write markers.
- A coordinator epoch that is impossibly high is not trusted (`hosting/markers.py`).

Version notes: 2 adds the transaction version of the marker (KIP-890).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Final

from drumlin.broker.context import RequestContext
from drumlin.broker.hosting.markers import write_markers
from drumlin.broker.loop.garbage import settled
from drumlin.broker.rights.acls import Kind, Operation
from drumlin.broker.rights.denials import DENIED
from drumlin.coordination.transactions.markers import Marker, TopicPartition
from drumlin.distinct import counted
from drumlin.metadata.rules.claims import may_coordinate
from drumlin.turns import give_way
from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.protocol.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

#: Partitions of a marker that are written to before their results are collected.
_WRITTEN_TOGETHER: Final = 1000

#: Markers of different producers that are written concurrently.
_MARKERS_TOGETHER: Final = 32

Codes = dict[TopicPartition, ErrorCode]


async def handle(
    context: RequestContext, request: WriteTxnMarkersRequest
) -> WriteTxnMarkersResponse:
    by_producer: dict[int, Codes] = {}
    first = 0
    while first < len(request.markers):
        together = _of_different_producers(request.markers[first : first + _MARKERS_TOGETHER])
        first += len(together)
        is_allowed = _may(context)
        write = _write if is_allowed else _refuse
        # Side by side, as each waits for replicas.
        written = await asyncio.gather(*(write(context, each) for each in together))
        for marker, codes in zip(together, written, strict=True):
            if marker.producer_id in by_producer:
                await _add(codes, by_producer[marker.producer_id])
            elif codes or not is_allowed:
                by_producer[marker.producer_id] = codes
    return await _respond(by_producer)


def _may(context: RequestContext) -> bool:
    return context.sees_cluster(Operation.ALTER) or context.may_cluster(Operation.CLUSTER_ACTION)


def _of_different_producers(markers: Sequence[WritableTxnMarker]) -> list[WritableTxnMarker]:
    """The longest prefix with at most one marker per producer."""
    found: dict[int, WritableTxnMarker] = {}
    for each in markers:
        if each.producer_id in found:
            break
        found[each.producer_id] = each
    return list(found.values())


async def _partitions(marker: WritableTxnMarker) -> dict[TopicPartition, int]:
    return await counted(
        (topic.name, index) for topic in marker.topics for index in topic.partition_indexes
    )


async def _refuse(_: RequestContext, marker: WritableTxnMarker) -> Codes:
    return dict.fromkeys(await _partitions(marker), DENIED[Kind.CLUSTER])


async def _write(context: RequestContext, marker: WritableTxnMarker) -> Codes:
    codes: Codes = {}
    is_believed = may_coordinate(context.broker.metadata.image, marker.coordinator_epoch)
    left = iter(await _partitions(marker))
    while some := list(islice(left, _WRITTEN_TOGETHER)):
        part = Marker(
            marker.producer_id,
            marker.producer_epoch,
            marker.coordinator_epoch,
            marker.transaction_result,
            some,
            marker.transaction_version,
        )
        written = await write_markers(context.broker, part, is_believed=is_believed)
        codes |= written
    return codes


async def _add(codes: Codes, known: Codes) -> None:
    for partition, code in codes.items():
        known[partition] = code
        await give_way()


async def _respond(by_producer: Mapping[int, Codes]) -> WriteTxnMarkersResponse:
    results = []
    for producer_id, codes in by_producer.items():
        results.append(await _result(producer_id, codes))
        await give_way()
    return WriteTxnMarkersResponse(markers=tuple(results))


async def _result(producer_id: int, codes: Codes) -> WritableTxnMarkerResult:
    partitions: dict[str, list[WritableTxnMarkerPartitionResult]] = {}
    for (topic, index), code in codes.items():
        partitions.setdefault(topic, []).append(
            WritableTxnMarkerPartitionResult(partition_index=index, error_code=code)
        )
        await give_way()
    topics = []
    for name, results in partitions.items():
        told = settled(tuple(results))
        topics.append(WritableTxnMarkerTopicResult(name=name, partitions=told))
        await give_way()
    return WritableTxnMarkerResult(producer_id=producer_id, topics=settled(tuple(topics)))
