"""The way to a group's coordinator: found when needed, forgotten when it turns out wrong.

JoinGroup may be held by the broker for minutes, and a broker answers a connection in order. So
what makes a membership goes over connections of its own, and commits do not wait behind it.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from drumlin.peer.broker_connections import BrokerConnections
from drumlin.peer.connection import BrokerConnection, RequestBuilder
from drumlin.peer.errors import PeerError
from drumlin.peer.options import PeerOptions
from drumlin.wire.errors import ErrorCode, KafkaError
from drumlin.wire.messages import Shape

_GROUP: Final = 0
#: The coordinator is another one, or this one is not ready.
LOST_COORDINATOR: Final = frozenset(
    {
        ErrorCode.not_coordinator,
        ErrorCode.coordinator_not_available,
        ErrorCode.request_timed_out,
    }
)


class CoordinatorLink:
    """The coordinator of one group. Lives in the loop."""

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
        """Ask again who the coordinator is."""
        self._node_id = None

    async def request(self, api_name: str, build: RequestBuilder, **how: Any) -> Any:
        """Ask the coordinator something that it answers at once.

        Raises:
            KafkaError: there is no coordinator at the moment.
            PeerError: no answer.
        """
        return await self._request(self._connections, api_name, build, how)

    async def membership_request(self, api_name: str, build: RequestBuilder, **how: Any) -> Any:
        """The same, for what makes the membership. Raises as `request` does."""
        return await self._request(self._membership, api_name, build, how)

    async def _request(
        self,
        connections: BrokerConnections,
        api_name: str,
        build: RequestBuilder,
        how: dict[str, Any],
    ) -> Any:
        try:
            connection = await self._coordinator(connections)
            return await connection.request(api_name, build, **how)
        except PeerError:
            self.forget()
            raise

    def check(self, code: ErrorCode, what: str) -> None:
        """
        Raises:
            KafkaError: unless `code` is none; forgets a coordinator that is none.
        """
        if code in LOST_COORDINATOR:
            self.forget()
        if code is not ErrorCode.none:
            raise KafkaError(code, what)

    async def _coordinator(self, connections: BrokerConnections) -> BrokerConnection:
        async with self._finding:
            if self._node_id is None:
                self._node_id = await self._find()
            node_id = self._node_id
        try:
            return await connections.broker(node_id)
        except KafkaError:
            self.forget()
            raise

    async def _find(self) -> int:
        def build(shape: Shape) -> object:
            return shape(
                "FindCoordinatorRequest",
                key=self.group_id,
                key_type=_GROUP,
                coordinator_keys=(self.group_id,),
            )

        connection = await self._connections.any()
        response = await connection.request("find_coordinator", build)
        found = getattr(response, "coordinators", (response,))[0]
        if found.error_code is not ErrorCode.none:
            raise KafkaError(found.error_code, f"coordinator of group {self.group_id!r}")
        node_id: int = found.node_id
        if node_id not in self._connections.view.brokers:
            await self._connections.refresh(())
        return node_id
