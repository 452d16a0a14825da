"""Requests to the coordinator of a transactional id, with retries.

A coordinator may move, restart, or be busy with the previous transaction. Such errors are
retriable, so a request is retried until the call's timeout. All these requests are safe to retry.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from drumlin.client.admin.coordinators import coordinator_connection, known_transaction_coordinator
from drumlin.peer.broker_connections import BrokerConnections
from drumlin.peer.connection import Request
from drumlin.peer.retry import Deadline
from drumlin.wire.error_codes import ErrorCode, KafkaError

T = TypeVar("T")

#: The pause while the markers of the previous transaction are written, which takes milliseconds.
_FIRST_PAUSE_S: Final = 0.005
_LAST_PAUSE_S: Final = 0.2


class TransactionCoordinator:
    """The coordinator of one transactional id. Used in the loop only."""

    def __init__(
        self, connections: BrokerConnections, transactional_id: str, node_id: int | None = None
    ) -> None:
        self._connections = connections
        self._transactional_id = transactional_id
        self._node_id = node_id

    async def ask(
        self,
        api_name: str,
        request: Request,
        read: Callable[[Any], T],
        version_max: int | None = None,
    ) -> T:
        """Send the request, and retry on retriable errors. `read` raises the error in a response.

        Raises:
            KafkaError: refused; or, after the timeout, the last retriable error.
            PeerError: not answered, or the broker does not support the request.
        """
        deadline = Deadline(self._connections.options.patience_ms)

        async def attempt() -> T:
            try:
                node_id = await self.node_id()
                connection = await coordinator_connection(self._connections, node_id)
                return read(await connection.request(api_name, request, version_max=version_max))
            except Exception as error:
                if not _is_busy(error):
                    self._node_id = None
                raise

        return await self._connections.retrying(
            lambda: _while_busy(attempt, deadline), deadline=deadline
        )

    async def node_id(self) -> int:
        """The broker id of the coordinator, looked up if it is unknown."""
        if self._node_id is None:
            self._node_id = await known_transaction_coordinator(
                self._connections, self._transactional_id
            )
        return self._node_id


async def _while_busy(attempt: Callable[[], Awaitable[T]], deadline: Deadline) -> T:
    pause_s = _FIRST_PAUSE_S
    while True:
        try:
            return await attempt()
        except KafkaError as error:
            if not _is_busy(error) or deadline.is_over:
                raise
        await asyncio.sleep(min(pause_s, deadline.remaining_s))
        pause_s = min(pause_s * 2, _LAST_PAUSE_S)


def _is_busy(error: Exception) -> bool:
    return isinstance(error, KafkaError) and error.code is ErrorCode.concurrent_transactions
