"""The producers with an open transaction in a partition, as its leader describes them.

A partition's last stable offset is the first offset of its oldest open transaction. A transaction
that its coordinator does not know hangs: only a marker from an admin ends it (KIP-664).
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from drumlin.client.topic_partition import TopicPartition
from drumlin.client.transactions.descriptions import describe, list_transactions
from drumlin.client.transactions.requests import check
from drumlin.peer.broker_connections import BrokerConnections
from drumlin.peer.peer_error import only
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.protocol.describe_producers import DescribeProducersRequest, TopicRequest
from drumlin.wire.protocol.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

_MARKERS_VERSION_MAX: Final = 1  # later versions are for transactions v2


class OpenProducer(NamedTuple):
    """A producer with an open transaction in one partition."""

    topic: str
    partition: int
    producer_id: int
    epoch: int
    first_offset: int  # of the transaction in this partition
    last_write: datetime | None
    coordinator_epoch: int  # of the last marker; -1: no marker yet


async def open_producers(
    connections: BrokerConnections, places: Collection[TopicPartition]
) -> dict[TopicPartition, list[OpenProducer]]:
    """The producers with an open transaction in each of these partitions, the oldest first.

    Raises:
        KafkaError, PeerError: refused, not answered, or the broker is older than Kafka 2.8.
    """
    found = await asyncio.gather(*(_open_in(connections, *place) for place in places))
    return dict(zip(places, found, strict=True))


async def _open_in(
    connections: BrokerConnections, topic: str, partition: int
) -> list[OpenProducer]:
    what = f"producers of topic {topic!r} partition {partition}"
    wanted = TopicRequest(name=topic, partition_indexes=(partition,))
    request = DescribeProducersRequest(topics=(wanted,))

    async def attempt() -> list[OpenProducer]:
        connection = await connections.leader(topic, partition)
        response = await connection.request("describe_producers", request)
        answer: Any = only(only(response.topics, what).partitions, what)
        check("describe_producers", answer.error_code, what)
        return [
            OpenProducer(
                topic,
                partition,
                each.producer_id,
                each.producer_epoch,
                each.current_txn_start_offset,
                _time(each.last_timestamp),
                each.coordinator_epoch,
            )
            for each in answer.active_producers
            if each.current_txn_start_offset >= 0
        ]

    found = await connections.retrying(attempt, topics=(topic,))
    return sorted(found, key=lambda each: each.first_offset)


def _time(timestamp_ms: int) -> datetime | None:
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000, UTC) if timestamp_ms >= 0 else None
    except (OverflowError, ValueError):  # producers may send any timestamp
        return None


async def owner_of(connections: BrokerConnections, producer: OpenProducer) -> str | None:
    """The transactional id whose coordinator will end this transaction; None if it hangs."""
    listed = await list_transactions(connections, producer_ids=(producer.producer_id,))
    known = await describe(connections, [each.transactional_id for each in listed])
    place = (producer.topic, producer.partition)
    for each in known.values():
        if each.producer_id == producer.producer_id and place in each.partitions:
            return each.transactional_id
    return None


async def abort_hanging(
    connections: BrokerConnections, topic: str, partition: int, producer_id: int
) -> None:
    """Write the abort marker that no coordinator will write.

    Raises:
        KafkaError: INVALID_TXN_STATE if the producer has nothing open there, or a coordinator
            will end it: abort it by its id. Or another refusal: this needs ClusterAction.
    """
    where = f"topic {topic!r} partition {partition}"
    for each in await _open_in(connections, topic, partition):
        if each.producer_id == producer_id:
            producer = each
            break
    else:
        why = f"{where}: producer {producer_id} has no open transaction there"
        raise KafkaError(ErrorCode.invalid_txn_state, why)
    owner = await owner_of(connections, producer)
    if owner is not None:
        why = f"{where}: that of producer {producer_id} does not hang: abort {owner!r} instead"
        raise KafkaError(ErrorCode.invalid_txn_state, why)
    await _write_marker(connections, producer)


async def _write_marker(connections: BrokerConnections, producer: OpenProducer) -> None:
    what = f"abort marker of producer {producer.producer_id}"
    topic = WritableTxnMarkerTopic(
        name=producer.topic,
        partition_indexes=(producer.partition,),
    )
    marker = WritableTxnMarker(
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        transaction_result=False,
        topics=(topic,),
        coordinator_epoch=max(producer.coordinator_epoch, 0),
    )
    request = WriteTxnMarkersRequest(markers=(marker,))

    async def attempt() -> None:
        connection = await connections.leader(producer.topic, producer.partition)
        response = await connection.request(
            "write_txn_markers", request, version_max=_MARKERS_VERSION_MAX
        )
        answer: Any = only(only(only(response.markers, what).topics, what).partitions, what)
        check("write_txn_markers", answer.error_code, what)

    await connections.retrying(attempt, topics=(producer.topic,))
