"""Begins transactions, by default with the longest timeout that brokers allow."""

from __future__ import annotations

from typing import Any, Final

from drumlin.client.transactions.coordinator import TransactionCoordinator
from drumlin.client.transactions.descriptions import describe_one
from drumlin.client.transactions.errors import UnknownTransaction
from drumlin.client.transactions.requests import (
    INIT_VERSION_MAX,
    OpenTransaction,
    begun,
    init_request,
)
from drumlin.peer.broker_connections import BrokerConnections
from drumlin.peer.peer_error import PeerError, only
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.protocol.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

_BROKER_RESOURCE: Final = 4
_MAX_TIMEOUT_KEY: Final = "transaction.max.timeout.ms"
#: Kafka's default limit, and the timeouts to try if the broker's limit is lower and unknown.
_TIMEOUTS_MS: Final = (900_000, 600_000, 300_000, 120_000, 60_000, 30_000, 10_000, 1_000)


class TimeoutLimit:
    """The longest timeout that brokers allow, looked up once per client. Used in the loop."""

    def __init__(self, connections: BrokerConnections) -> None:
        self._connections = connections
        self._known_ms: int | None = None

    async def begin(
        self, coordinator: TransactionCoordinator, transactional_id: str, timeout_ms: int | None
    ) -> tuple[OpenTransaction, int]:
        """Fence the previous producer, abort its transaction, and begin; returns the timeout, too.

        Raises:
            KafkaError, PeerError: the request was refused, or not answered.
        """
        if timeout_ms is not None:
            return await begin(coordinator, transactional_id, timeout_ms), timeout_ms
        if self._known_ms is None:
            node_id = await self._connections.retrying(coordinator.node_id)
            self._known_ms = await self._limit_of(node_id)
        tries = [self._known_ms] if self._known_ms else []
        tries += [each for each in _TIMEOUTS_MS if not tries or each < tries[0]]
        for each_ms in tries[:-1]:
            try:
                identity = await begin(coordinator, transactional_id, each_ms)
            except KafkaError as error:
                if error.code is not ErrorCode.invalid_transaction_timeout:
                    raise
            else:
                self._known_ms = each_ms
                return identity, each_ms
        return await begin(coordinator, transactional_id, tries[-1]), tries[-1]

    async def _limit_of(self, node_id: int) -> int:
        """The broker's limit; 0 if the broker hides it, as from a user without permission."""
        resource = DescribeConfigsResource(
            resource_type=_BROKER_RESOURCE,
            resource_name=str(node_id),
            configuration_keys=(_MAX_TIMEOUT_KEY,),
        )
        request = DescribeConfigsRequest(resources=(resource,))
        try:
            connection = await self._connections.broker(node_id)
            response: Any = await connection.request("describe_configs", request)
            for each in only(response.results, "describe_configs").configs:
                if each.name == _MAX_TIMEOUT_KEY:
                    return int(each.value or 0)
        except (KafkaError, PeerError, ValueError):
            pass
        return 0


async def abort_by_id(connections: BrokerConnections, transactional_id: str) -> None:
    """Fence the id's producer, and abort its open transaction.

    Raises:
        UnknownTransaction: the id was never used.
        KafkaError, PeerError: the request was refused, or not answered.
    """
    found = await describe_one(connections, transactional_id)
    if found is None:
        raise UnknownTransaction("no coordinator knows this id", transactional_id)
    coordinator = TransactionCoordinator(connections, transactional_id, found.coordinator)
    try:
        await begin(coordinator, transactional_id, found.timeout_ms)
    except KafkaError as error:
        if error.code is not ErrorCode.invalid_transaction_timeout:
            raise
        # The limit was lowered. No transaction stays open, so a short timeout does no harm.
        await begin(coordinator, transactional_id, _TIMEOUTS_MS[-1])


async def begin(
    coordinator: TransactionCoordinator, transactional_id: str, timeout_ms: int
) -> OpenTransaction:
    """InitProducerId: fences the id's producer, and aborts its open transaction.

    Raises:
        KafkaError, PeerError: the request was refused, or not answered.
    """
    return await coordinator.ask(
        "init_producer_id",
        init_request(transactional_id, timeout_ms),
        lambda response: begun(response, transactional_id),
        INIT_VERSION_MAX,
    )
