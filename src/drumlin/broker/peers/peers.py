"""Connections to the other brokers of the cluster: one for each broker and purpose.

Owns these connections. They are opened on demand, and closed when the other broker has restarted,
moved or left the cluster, or when this broker stops. Requests are never retried here: that is up to
the callers. But after a failed attempt a broker is not contacted for a moment. Replica fetchers
have connections and pauses of their own.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, Final, Literal

from drumlin.broker.loop.threads import Threads
from drumlin.config.broker import BrokerConfig
from drumlin.metadata.image import BrokerState, ClusterImage
from drumlin.metadata.store.changes import BrokersChanged, Change
from drumlin.peer.connection import Address, BrokerConnection, Request
from drumlin.peer.link import Link, Open
from drumlin.peer.options import PeerOptions
from drumlin.peer.peer_error import ConnectionLost, UnsupportedByBroker
from drumlin.peer.security.security import Security
from drumlin.peer.security.settings import Tls
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.messages import prepare_to_ask, schema_versions

_log = logging.getLogger(__name__)

#: A broker answers the requests of a connection in order, so long waits have a connection of their
#: own.
Purpose = Literal["markers", "offsets", "share state", "transactions"]

#: The first request of every connection.
_FIRST: Final = ("api_versions", schema_versions("api_versions")[1])
#: Pause after a failed attempt, as in Kafka's clients; it doubles up to the second value.
_FIRST_PAUSE_S: Final = 0.05
_LAST_PAUSE_S: Final = 1.0


class Peers:
    """All connections of one broker to others."""

    def __init__(
        self,
        config: BrokerConfig,
        image: ClusterImage,
        threads: Threads,
        security_at: Callable[[int], Security],
    ) -> None:
        """`security_at`: the security of connections to the broker with this id."""
        self._security_at = security_at
        #: The TLS of connections that are opened from now on, if this broker's certificate was
        #: replaced; None: that of `security_at`.
        self.tls: Tls | None = None
        self._config = config
        self._image = image
        self._threads = threads
        self._prepared: set[tuple[str, int]] = set()
        self._links: dict[tuple[int, Purpose], _BrokerLink] = {}
        self._fetching: set[tuple[BrokerState, BrokerConnection]] = set()
        self._is_closed = False

    async def ask(
        self, node_id: int, purpose: Purpose, api_name: str, request: Request, low: int = 0
    ) -> Any:
        """The answer of the broker with this id, to a request of version `low` or a later one.

        Raises:
            KafkaError: BROKER_NOT_AVAILABLE, no broker with this id is alive.
            PeerError: there is no answer.
        """
        connection = await self.connection(node_id, purpose)
        version = connection.version_of(api_name)
        if version < low:
            message = f"broker {node_id} offers {api_name} up to {version}, {low} would do"
            raise UnsupportedByBroker(message)
        await self._prepare(api_name, version)
        return await connection.request(api_name, request)

    async def connection(self, node_id: int, purpose: Purpose) -> BrokerConnection:
        """An open connection to the current process of the broker with this id.

        Raises:
            KafkaError: BROKER_NOT_AVAILABLE, no broker with this id is alive.
            PeerError: the broker cannot be reached now.
        """
        await self._prepare(*_FIRST)
        broker, address = self._look_up(node_id)
        link = self._links.get((node_id, purpose))
        if link is None or link.broker != broker:
            if link is not None:
                link.close()
            link = self._links[node_id, purpose] = _BrokerLink(
                broker, partial(self._open, address, node_id, purpose)
            )
        return await link.connection()

    async def open_to_fetch(self, node_id: int) -> BrokerConnection:
        """A new connection to the broker with this id, for a replica fetcher.

        The caller closes it; but if the broker restarts, moves or leaves first, it is closed here.

        Raises:
            KafkaError: BROKER_NOT_AVAILABLE, no broker with this id is alive.
            PeerError: the broker cannot be reached now.
        """
        await self._prepare(*_FIRST)
        broker, address = self._look_up(node_id)
        timeout_ms: int = self._config.replica_socket_timeout_ms
        options = replace(self._options(node_id, "fetcher"), request_timeout_ms=timeout_ms)
        connection = await BrokerConnection.open(address, options)
        self._fetching = {each for each in self._fetching if each[1].is_open}
        if self._is_closed or self._image.brokers.get(node_id) != broker:
            connection.close()
            raise ConnectionLost(f"broker {node_id}: no longer wanted")
        self._fetching.add((broker, connection))
        return connection

    async def _open(self, address: Address, node_id: int, purpose: str) -> BrokerConnection:
        return await BrokerConnection.open(address, self._options(node_id, purpose))

    def on_change(self, change: Change) -> None:
        """Close connections to brokers that have restarted, moved or left, so that callers do not
        wait in vain.
        """
        if not isinstance(change, BrokersChanged):
            return
        for (node_id, purpose), link in list(self._links.items()):
            if self._image.brokers.get(node_id) != link.broker:
                del self._links[node_id, purpose]
                link.close()
        for broker, connection in self._fetching:
            if self._image.brokers.get(broker.node_id) != broker:
                connection.close()

    def close(self) -> None:
        """Close all connections; callers that wait for an answer get `ConnectionLost`."""
        self._is_closed = True
        for link in self._links.values():
            link.close()
        self._links.clear()
        for _, connection in self._fetching:
            connection.close()
        self._fetching.clear()

    async def _prepare(self, api_name: str, version: int) -> None:
        """Compile the code for the first request of this version in a thread: on the loop that
        would stall all clients.
        """
        if (api_name, version) not in self._prepared:
            await self._threads.making(prepare_to_ask, api_name, version)
            self._prepared.add((api_name, version))

    def _look_up(self, node_id: int) -> tuple[BrokerState, Address]:
        if self._is_closed:
            raise ConnectionLost(f"broker {node_id}: not asked, as this broker stops")
        broker = self._image.brokers.get(node_id)
        address = None if broker is None else self._address(broker)
        if broker is None or address is None:
            raise KafkaError(ErrorCode.broker_not_available, f"broker {node_id} is not there")
        return broker, address

    def _address(self, broker: BrokerState) -> Address | None:
        endpoint = broker.endpoint(self._config.inter_broker_listener_name)
        return None if endpoint is None else Address(endpoint.host, endpoint.port)

    def _options(self, node_id: int, purpose: str) -> PeerOptions:
        config, security = self._config, self._security_at(node_id)
        if self.tls is not None:
            security = replace(security, tls=self.tls)
        return PeerOptions(
            client_id=f"broker-{config.node_id}-{purpose.replace(' ', '-')}",
            request_timeout_ms=config.request_timeout_ms,
            connect_timeout_ms=config.socket_connection_setup_timeout_ms,
            security=security,
        )


class _BrokerLink(Link):
    """The link to one process of one broker."""

    def __init__(self, broker: BrokerState, open_: Open) -> None:
        super().__init__(f"broker {broker.node_id}", open_, _pauses)
        self.broker = broker


def not_asked() -> ConnectionLost:
    """The error for callers whose request was not sent."""
    return ConnectionLost("not asked, as this broker stops")


def _pauses() -> Iterator[float]:
    pause_s = _FIRST_PAUSE_S
    while True:
        yield pause_s * random.uniform(0.8, 1.2)
        pause_s = min(2 * pause_s, _LAST_PAUSE_S)
