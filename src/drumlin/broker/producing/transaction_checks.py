"""Requests to the transaction coordinator to verify that partitions are part of a transaction.

The image says which broker coordinates; if the image is out of date, the request is not repeated,
as clients retry. Error codes are translated if clients expect others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from drumlin.broker.parts.parts import Coordinators
from drumlin.broker.peers.coordinators import coordinator_of
from drumlin.coordination.shards.state_batches import Producer
from drumlin.coordination.transactions.markers import TopicPartition
from drumlin.metadata.image import NO_LEADER
from drumlin.metadata.names import TRANSACTION_STATE
from drumlin.wire.error_codes import ErrorCode

#: Codes for an unknown transactional id, or one that another producer has.
_NO_SUCH_PRODUCER: Final = frozenset(
    {ErrorCode.invalid_producer_id_mapping, ErrorCode.invalid_request}
)


async def ask_coordinator(
    broker: Coordinators,
    transactional_id: str,
    producer: Producer,
    partitions: Sequence[TopicPartition],
    *,
    adds: bool,
    knows_abortable: bool,
) -> dict[TopicPartition, ErrorCode]:
    """A code for each partition: NONE if it is part of the producer's ongoing transaction.

    Args:
        adds: whether to add the partitions to the transaction, as in transactions v2.
        knows_abortable: whether the client understands TRANSACTION_ABORTABLE.
    """
    config, loop = broker.config, asyncio.get_running_loop()
    gives_up_at = loop.time() + config.add_partitions_to_txn_retry_backoff_max_ms / 1000
    while True:
        codes = await _ask_once(broker, transactional_id, producer, partitions, adds=adds)
        is_ending = ErrorCode.concurrent_transactions in codes.values()
        if not adds or not is_ending or loop.time() >= gives_up_at:
            break
        # The previous transaction is still ending; clients of transactions v2 do not wait for that.
        await asyncio.sleep(config.add_partitions_to_txn_retry_backoff_ms / 1000)
    return {key: _translated(codes[key], knows_abortable) for key in partitions}


async def _ask_once(
    broker: Coordinators,
    transactional_id: str,
    producer: Producer,
    partitions: Sequence[TopicPartition],
    *,
    adds: bool,
) -> dict[TopicPartition, ErrorCode]:
    node_id = coordinator_of(broker.metadata.image, TRANSACTION_STATE, transactional_id)
    if node_id == NO_LEADER:
        return dict.fromkeys(partitions, ErrorCode.coordinator_not_available)
    if node_id is None or node_id == broker.node_id:
        return await broker.transactions.add_partitions(
            transactional_id, *producer, partitions, verify_only=not adds
        )
    return await broker.remote_transactions.add_partitions(
        node_id, transactional_id, *producer, partitions, verify_only=not adds
    )


def not_confirmed(broker: Coordinators, code: ErrorCode, withdraw: Callable[[], None]) -> None:
    """Withdraw the verification, as the coordinator has answered with an error: at once if no batch
    of the producer can be accepted any more, else later, as it may retry.
    """
    has_ids = TRANSACTION_STATE in broker.metadata.image.topics
    if code in _NO_SUCH_PRODUCER or not has_ids:
        withdraw()
    else:
        broker.failed_verifications.keep(withdraw)


def _translated(code: ErrorCode, knows_abortable: bool) -> ErrorCode:
    if code is ErrorCode.producer_fenced:
        return ErrorCode.invalid_producer_epoch  # which is not fatal for a producer
    if code is ErrorCode.transaction_abortable and not knows_abortable:
        return ErrorCode.invalid_txn_state
    if code is ErrorCode.cluster_authorization_failed:
        return ErrorCode.invalid_txn_state  # the broker's authorization, not the client's
    if code is ErrorCode.broker_not_available:
        return ErrorCode.coordinator_not_available
    return code
