"""Writing transaction markers into the partitions of a transaction.

Every partition succeeds or fails by itself: the transaction coordinator retries those that failed.
A repeated marker does no harm.
"""

from __future__ import annotations

import asyncio
from typing import Final

from drumlin.broker.parts.parts import Coordinators
from drumlin.coordination.transactions.markers import Marker, TopicPartition
from drumlin.metadata.names import GROUP_METADATA
from drumlin.replication.partition import Partition
from drumlin.storage.producers.producer_state import TransactionMarker
from drumlin.turns import give_way
from drumlin.wire.error_codes import ErrorCode, KafkaError

#: The share of `request.timeout.ms` that is spent waiting for replicas.
_PATIENCE: Final = 0.8


async def write_markers(
    broker: Coordinators, marker: Marker, *, is_believed: bool = True
) -> dict[TopicPartition, ErrorCode]:
    """Write one marker to all of its partitions; returns a code for each, NONE on success.

    If a marker's coordinator epoch is not trusted, a coordinator with that epoch must be known
    already.

    Gives way in between, as a transaction may have thousands of partitions. At the end it waits for
    in-sync replicas, and for the disk if a topic has `flush.messages`. It stops waiting before the
    requesting broker stops waiting for the response.
    """
    codes: dict[TopicPartition, ErrorCode] = {}
    confirming: dict[TopicPartition, asyncio.Future[None]] = {}
    for key in marker.partitions:
        await give_way()
        if key in codes:
            continue
        try:
            await broker.change_overs.over(broker.partitions.get(*key))
            partition = _append(broker, marker, key, is_believed)
        except KafkaError as error:
            codes[key] = error.code
            continue
        codes[key] = ErrorCode.none
        if partition.awaits_confirmation:
            confirming[key] = broker.flushes.confirm(partition)
    broker.wakeups.finish()
    if confirming:
        timeout_s = broker.config.request_timeout_ms / 1000 * _PATIENCE
        await asyncio.wait(confirming.values(), timeout=timeout_s)
        for key, confirmed in confirming.items():
            codes[key] = _outcome(confirmed)
            await give_way()
    return codes


def _outcome(confirmed: asyncio.Future[None]) -> ErrorCode:
    if not confirmed.done():
        return ErrorCode.request_timed_out
    error = confirmed.exception()
    if error is None:
        return ErrorCode.none
    return error.code if isinstance(error, KafkaError) else ErrorCode.kafka_storage_error


def _append(
    broker: Coordinators, marker: Marker, key: TopicPartition, is_believed: bool
) -> Partition:
    partition = broker.partitions.get(*key)
    topic, index = key
    if not (
        is_believed or partition.knows_marker_epoch(marker.producer_id, marker.coordinator_epoch)
    ):
        # Once written, it would fence every coordinator for ever.
        raise KafkaError(ErrorCode.not_leader_or_follower)
    if topic == GROUP_METADATA:
        _check_loaded(broker, index)
    partition.append_marker(
        TransactionMarker(marker.is_commit, marker.coordinator_epoch),
        marker.producer_id,
        marker.producer_epoch,
        broker.clock.wall_ms(),
        marker.transaction_version,
    )
    if topic == GROUP_METADATA:
        broker.groups.end_transaction(index, marker.producer_id, marker.is_commit)
    return partition


def _check_loaded(broker: Coordinators, index: int) -> None:
    """Check that the group coordinator is loaded, as the marker decides pending offsets."""
    try:
        broker.groups.check_loaded(index)
    except KafkaError as error:
        raise KafkaError(ErrorCode.not_leader_or_follower, error.message) from error
