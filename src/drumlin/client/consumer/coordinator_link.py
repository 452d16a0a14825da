"""Requests to a group's coordinator, which is looked up when needed and again when it has moved.

A broker may hold JoinGroup for minutes, and answers the requests of a connection in order. So
membership requests have a connection of their own, and commits do not wait for them.
"""

from __future__ import annotations

import asyncio
from typing import Any

from drumlin.client.admin.coordinators import (
    LOST_COORDINATOR,
    coordinator_connection,
    find_coordinator,
)
from drumlin.peer.broker_connections import BrokerConnections
from drumlin.peer.connection import BrokerConnection, Request
from drumlin.peer.options import PeerOptions
from drumlin.peer.peer_error import PeerError
from drumlin.peer.rights import refusal
from drumlin.wire.error_codes import ErrorCode, KafkaError


class CoordinatorLink:
    """The coordinator of one group. Used in the event loop only."""

    def __init__(
        self, group_id: str, connections: BrokerConnections, membership: BrokerConnections
    ) -> None:
        self.group_id = group_id
        self._connections = connections
        self._membership = membership
        self._node_id: int | None = None
        self._finding = asyncio.Lock()

    @property
    def options(self) -> PeerOptions:
        return self._connections.options

    def forget(self) -> None:
        """Forget the coordinator: the next request looks it up again."""
        self._node_id = None

    async def request(self, api_name: str, request: Request, **how: Any) -> Any:
        """Send a request that the coordinator answers at once.

        Raises:
            KafkaError: there is no coordinator at the moment.
            PeerError: no answer.
        """
        return await self._request(self._connections, api_name, request, how)

    async def membership_request(self, api_name: str, request: Request, **how: Any) -> Any:
        """Send a membership request, which may take minutes. Raises as `request` does."""
        return await self._request(self._membership, api_name, request, how)

    async def _request(
        self,
        connections: BrokerConnections,
        api_name: str,
        request: Request,
        how: dict[str, Any],
    ) -> Any:
        try:
            connection = await self._coordinator(connections)
            return await connection.request(api_name, request, **how)
        except PeerError:
            self.forget()
            raise

    def check(self, api_name: str, code: ErrorCode, what: str | None = None) -> None:
        """Check a response's error, and forget a broker that is not the coordinator (any more).

        Raises:
            KafkaError: `code` is not "none".
        """
        if code in LOST_COORDINATOR:
            self.forget()
        if code is not ErrorCode.none:
            raise refusal(api_name, code, what or f"{api_name} of group {self.group_id!r}")

    async def _coordinator(self, connections: BrokerConnections) -> BrokerConnection:
        async with self._finding:
            if self._node_id is None:
                self._node_id = await find_coordinator(self._connections, self.group_id)
            node_id = self._node_id
        try:
            return await coordinator_connection(connections, node_id)
        except KafkaError:
            self.forget()
            raise
