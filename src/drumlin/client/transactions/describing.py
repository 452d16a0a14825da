"""Transactions as their coordinators describe them. Errors that may pass are tried again."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from drumlin.client.offsets import TopicPartition
from drumlin.client.transactions.coordinator import TransactionCoordinator
from drumlin.client.transactions.requests import check
from drumlin.peer.broker_connections import BrokerConnections
from drumlin.peer.connection import RequestBuilder
from drumlin.peer.errors import only
from drumlin.wire.errors import ErrorCode
from drumlin.wire.messages import Shape

_EPOCH: Final = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """One transactional id. `state` is in the protocol's words, as "Ongoing"."""

    transactional_id: str
    state: str
    producer_id: int
    epoch: int
    start_time: datetime | None  # of the transaction that is open, or was the last
    timeout_ms: int
    partitions: tuple[TopicPartition, ...]  # that have no marker yet
    coordinator: int

    @property
    def is_open(self) -> bool:
        """Whether it can be committed, and holds up readers until it is ended."""
        return self.state == "Ongoing"


class TransactionListing(NamedTuple):
    """A transactional id as its coordinator lists it."""

    transactional_id: str
    producer_id: int
    state: str
    coordinator: int


async def describe(
    connections: BrokerConnections, transactional_ids: Iterable[str]
) -> dict[str, TransactionDescription]:
    """Those that coordinators know."""
    found = {}
    for transactional_id in dict.fromkeys(transactional_ids):
        description = await describe_one(connections, transactional_id)
        if description is not None:
            found[transactional_id] = description
    return found


async def describe_one(
    connections: BrokerConnections, transactional_id: str
) -> TransactionDescription | None:
    """None for an id that its coordinator does not know.

    Raises:
        KafkaError, PeerError: refused, not answered, or the broker is older than Kafka 3.0.
    """
    coordinator = TransactionCoordinator(connections, transactional_id)

    def read(response: Any) -> Any:
        what = f"transaction {transactional_id!r}"
        found = only(response.transaction_states, what)
        if found.error_code is ErrorCode.transactional_id_not_found:
            return None
        check(found.error_code, what)
        return found

    found = await coordinator.ask("describe_transactions", _describe(transactional_id), read)
    if found is None:
        return None
    is_begun = found.transaction_start_time > _EPOCH
    return TransactionDescription(
        transactional_id,
        found.transaction_state,
        found.producer_id,
        found.producer_epoch,
        found.transaction_start_time if is_begun else None,
        round(found.transaction_timeout / timedelta(milliseconds=1)),
        tuple((topic.topic, each) for topic in found.topics for each in topic.partitions),
        await coordinator.node_id(),
    )


def _describe(transactional_id: str) -> RequestBuilder:
    def build(shape: Shape) -> object:
        return shape("DescribeTransactionsRequest", transactional_ids=(transactional_id,))

    return build


async def list_transactions(
    connections: BrokerConnections,
    states: Collection[str] = (),
    producer_ids: Collection[int] = (),
) -> list[TransactionListing]:
    """The transactional ids of every broker, by name; those in these states, of these producers."""

    def build(shape: Shape) -> object:
        return shape(
            "ListTransactionsRequest",
            state_filters=tuple(states),
            producer_id_filters=tuple(producer_ids),
        )

    async def attempt() -> list[TransactionListing]:
        await connections.refresh(())
        found: list[TransactionListing] = []
        for node_id in sorted(connections.view.brokers):
            connection = await connections.broker(node_id)
            response = await connection.request("list_transactions", build)
            check(response.error_code, f"transactions of broker {node_id}")
            found += [
                TransactionListing(
                    each.transactional_id, each.producer_id, each.transaction_state, node_id
                )
                for each in response.transaction_states
            ]
        return sorted(found)

    return await connections.retrying(attempt)
