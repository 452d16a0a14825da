"""Transactions as their coordinators describe them. Retriable errors are retried."""

from __future__ import annotations

import asyncio
import itertools
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from drumlin.client.admin.coordinators import coordinator_connection, known_transaction_coordinators
from drumlin.client.topic_partition import TopicPartition
from drumlin.client.transactions.requests import check
from drumlin.peer.broker_connections import BrokerConnections
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.protocol.describe_transactions import DescribeTransactionsRequest
from drumlin.wire.protocol.list_transactions import ListTransactionsRequest
from drumlin.wire.schema.declaration import Message

_EPOCH: Final = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """One transactional id. `state` is named as in the protocol, e.g. "Ongoing"."""

    transactional_id: str
    state: str
    producer_id: int
    epoch: int
    start_time: datetime | None  # of the open or last transaction
    timeout_ms: int
    partitions: tuple[TopicPartition, ...]  # without a marker yet
    coordinator: int

    @property
    def is_open(self) -> bool:
        """Whether the transaction is open, and so holds back the last stable offset."""
        return self.state == "Ongoing"

    @property
    def start_ms(self) -> int | None:
        """The start in milliseconds since the epoch."""
        start = self.start_time
        return None if start is None else round(start.timestamp() * 1000)


class TransactionListing(NamedTuple):
    """A transactional id as its coordinator lists it."""

    transactional_id: str
    producer_id: int
    state: str
    coordinator: int


async def describe(
    connections: BrokerConnections, transactional_ids: Iterable[str]
) -> dict[str, TransactionDescription]:
    """The transactions of those ids that are known, with one request to each coordinator.

    Raises:
        KafkaError, PeerError: refused, not answered, or the broker is older than Kafka 3.0.
    """
    missing = dict.fromkeys(transactional_ids)
    found: dict[str, TransactionDescription] = {}

    async def ask(node_id: int, asked: Collection[str]) -> Any:
        connection = await coordinator_connection(connections, node_id)
        return await connection.request("describe_transactions", _describe(asked))

    async def attempt() -> None:
        by_coordinator: dict[int, list[str]] = defaultdict(list)
        coordinators = await known_transaction_coordinators(connections, missing)
        for each, node_id in coordinators.items():
            by_coordinator[node_id].append(each)
        answers = await asyncio.gather(*(ask(*each) for each in by_coordinator.items()))
        for node_id, response in zip(by_coordinator, answers, strict=True):
            for state in response.transaction_states:
                if state.error_code is not ErrorCode.transactional_id_not_found:
                    what = f"transaction {state.transactional_id!r}"
                    check("describe_transactions", state.error_code, what)
                    found[state.transactional_id] = _description(state, node_id)
                missing.pop(state.transactional_id, None)
        for each in missing:
            what = f"coordinator of transactional id {each!r}"
            raise KafkaError(ErrorCode.coordinator_not_available, what)

    await connections.retrying(attempt)
    return found


async def describe_one(
    connections: BrokerConnections, transactional_id: str
) -> TransactionDescription | None:
    """`describe` for one id; None if its coordinator does not know it."""
    return (await describe(connections, (transactional_id,))).get(transactional_id)


def _describe(transactional_ids: Collection[str]) -> Message:
    return DescribeTransactionsRequest(transactional_ids=tuple(transactional_ids))


def _description(state: Any, node_id: int) -> TransactionDescription:
    is_begun = state.transaction_start_time > _EPOCH
    return TransactionDescription(
        state.transactional_id,
        state.transaction_state,
        state.producer_id,
        state.producer_epoch,
        state.transaction_start_time if is_begun else None,
        round(state.transaction_timeout / timedelta(milliseconds=1)),
        tuple(
            sorted(
                TopicPartition(topic.topic, each)
                for topic in state.topics
                for each in topic.partitions
            )
        ),
        node_id,
    )


async def list_transactions(
    connections: BrokerConnections,
    states: Collection[str] = (),
    producer_ids: Collection[int] = (),
) -> list[TransactionListing]:
    """The transactional ids of all brokers, sorted, optionally filtered by state and producer."""
    request = ListTransactionsRequest(
        state_filters=tuple(states),
        producer_id_filters=tuple(producer_ids),
    )

    async def of_broker(node_id: int) -> list[TransactionListing]:
        connection = await coordinator_connection(connections, node_id)
        response = await connection.request("list_transactions", request)
        check("list_transactions", response.error_code, f"transactions of broker {node_id}")
        if response.unknown_state_filters:
            unknown = ", ".join(map(repr, response.unknown_state_filters))
            why = f"unknown transaction state: {unknown} (known are e.g. 'Ongoing', 'Empty')"
            raise KafkaError(ErrorCode.invalid_request, why)
        return [
            TransactionListing(
                each.transactional_id, each.producer_id, each.transaction_state, node_id
            )
            for each in response.transaction_states
        ]

    async def attempt() -> list[TransactionListing]:
        await connections.refresh(())
        found = await asyncio.gather(*map(of_broker, connections.view.brokers))
        return sorted(itertools.chain(*found))

    return await connections.retrying(attempt)
