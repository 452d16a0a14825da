"""Ends or aborts many transactions at once, such as those of a job's tasks, each by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import Final, TypeVar

from drumlin.client.admin.coordinators import known_transaction_coordinators
from drumlin.client.errors import ClientError, as_client_error
from drumlin.client.transactions.coordinator import TransactionCoordinator
from drumlin.client.transactions.requests import OpenTransaction
from drumlin.client.transactions.timeout_limit import abort_by_id
from drumlin.client.transactions.transaction_end import end_transaction
from drumlin.peer.broker_connections import BrokerConnections
from drumlin.peer.peer_error import PeerError
from drumlin.wire.error_codes import KafkaError

T = TypeVar("T")

_AT_A_TIME: Final = 64


async def end_all(
    connections: BrokerConnections,
    transactions: Collection[OpenTransaction],
    *,
    commit: bool,
    are_written: bool = False,
) -> dict[OpenTransaction, ClientError | None]:
    """End many transactions; returns for each the error of `end_transaction`, or None."""
    try:
        ids = [each.transactional_id for each in transactions]
        coordinators = await known_transaction_coordinators(connections, ids)
    except (KafkaError, PeerError):
        coordinators = {}  # each end looks up its coordinator, and fails if there is none

    async def end(identity: OpenTransaction) -> None:
        node_id = coordinators.get(identity.transactional_id)
        coordinator = TransactionCoordinator(connections, identity.transactional_id, node_id)
        await end_transaction(
            connections, identity, commit=commit, coordinator=coordinator, is_written=are_written
        )

    return await _each(transactions, end)


async def abort_all(
    connections: BrokerConnections, transactional_ids: Collection[str]
) -> dict[str, ClientError | None]:
    """Abort many transactions; returns for each the error of `abort_by_id`, or None."""
    return await _each(transactional_ids, lambda each: abort_by_id(connections, each))


async def _each(
    subjects: Collection[T], act: Callable[[T], Awaitable[None]]
) -> dict[T, ClientError | None]:
    turns = asyncio.Semaphore(_AT_A_TIME)

    async def fate_of(subject: T) -> ClientError | None:
        async with turns:
            try:
                await act(subject)
            except ClientError as error:
                return error
            except (KafkaError, PeerError) as error:
                return as_client_error(error)
        return None

    distinct = list(dict.fromkeys(subjects))
    fates = await asyncio.gather(*map(fate_of, distinct))
    return dict(zip(distinct, fates, strict=True))
