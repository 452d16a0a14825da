"""The connections of a client to a cluster: one per broker, opened on demand.

Finds leaders and other brokers by metadata, reconnects on the next use of a lost connection, and
retries an attempt after transient errors, within a deadline. Used in one event loop only.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from drumlin.background import Background
from drumlin.peer.cluster_view import ClusterView
from drumlin.peer.connection import Address, BrokerConnection
from drumlin.peer.frame_memory import FrameMemory
from drumlin.peer.link import Link
from drumlin.peer.options import PeerOptions
from drumlin.peer.peer_error import AuthenticationFailed, ConnectionLost, PeerError
from drumlin.peer.retry import UNKNOWN_TOPIC_PATIENCE_S, Deadline, is_stale_metadata, retrying
from drumlin.peer.rights import CREATING, refusal
from drumlin.peer.security.access import Access
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.protocol.metadata import MetadataRequest, MetadataRequestTopic

T = TypeVar("T")

_DEFAULT_PORT: Final = 9092


def parse_bootstrap(bootstrap: str) -> list[Address]:
    """Addresses from "host:port,[::1]:port,host".

    Raises:
        ValueError: the text has no address, or an invalid port.
    """
    addresses = []
    for part in filter(None, (each.strip() for each in bootstrap.split(","))):
        host, colon, port = part.rpartition(":")
        if not colon or port.endswith("]"):
            host, port = part, str(_DEFAULT_PORT)
        if not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise ValueError(f"{part!r} is no broker address: expected host:port")
        addresses.append(Address(host.strip("[]"), int(port)))
    if not addresses:
        raise ValueError("no broker address given: expected host:port[,host:port...]")
    return addresses


class BrokerConnections:
    """All connections of one client. `view` is the client's view of the cluster."""

    def __init__(
        self,
        bootstrap: Sequence[Address],
        options: PeerOptions,
        access: Access | None = None,
    ) -> None:
        """Prepare the connections, without opening any.

        Raises:
            SecurityOptionError: certificates or keys of the options cannot be read.
        """
        self.options = options
        self._access = access or Access(options.security, options.connect_timeout_ms)
        self.view = ClusterView()
        self.memory = FrameMemory()
        self._background = Background()
        self._is_closed = False
        self._bootstrap = list(bootstrap)
        self._links: dict[Address, Link] = {}

    def sibling(self) -> BrokerConnections:
        """Further connections to the same brokers, which share the view of the cluster.

        For requests that a broker may hold for long, as it answers the requests of a connection in
        order.
        """
        connections = BrokerConnections(self._bootstrap, self.options, self._access)
        connections.view = self.view
        connections.memory = self.memory
        return connections

    async def close(self) -> None:
        """Close all connections, including those being opened; then nothing runs for them."""
        self._is_closed = True
        await self._background.end()
        links = list(self._links.values())
        self._links.clear()
        for link in links:
            link.close()
        openings = [link.opening for link in links if link.opening is not None]
        await asyncio.gather(*openings, return_exceptions=True)
        await asyncio.sleep(0)  # transports end in the loop's next turn

    def run(self, work: Callable[[], Coroutine[Any, Any, None]]) -> asyncio.Task[None] | None:
        """Run work that uses them in the background, until `close`; after it, nothing."""
        return None if self._is_closed else self._background.spawn(work())

    # -- connections ---------------------------------------------------------------------

    async def any(self) -> BrokerConnection:
        """A connection to any broker of the cluster, preferably an open one.

        Raises:
            ConnectionLost: no broker, known or bootstrap, answers.
            AuthenticationFailed: a broker rejects our identity, or we do not trust it. Other
                brokers are not tried: sending a wrong password to every broker could lock the user
                out.
        """
        for link in self._links.values():
            connection = link.if_open
            if connection is not None:
                return connection
        known = list(self.view.brokers.values())
        random.shuffle(known)
        failures = []
        for address in dict.fromkeys(known + self._bootstrap):
            try:
                return await self._connect(address)
            except AuthenticationFailed:
                raise
            except PeerError as error:
                failures.append(str(error))
        raise ConnectionLost("; ".join(failures))

    async def broker(self, node_id: int) -> BrokerConnection:
        """A connection to the broker with this id."""
        address = self.view.brokers.get(node_id)
        if address is None:
            await self.refresh(())
            address = self.view.brokers.get(node_id)
        if address is None:
            raise KafkaError(ErrorCode.broker_not_available, f"broker {node_id} is not there")
        return await self._connect(address)

    async def leader(self, topic: str, partition: int) -> BrokerConnection:
        """A connection to the leader of a partition; requests metadata if needed."""
        if topic not in self.view.topics:
            await self.refresh((topic,))
        return await self.broker(self.view.leader_of(topic, partition))

    async def partitions(self, topic: str) -> list[int]:
        """The current partition numbers of a topic, sorted.

        Raises:
            KafkaError: the topic does not exist; the message may suggest a similar name.
        """
        try:
            await self.retrying(lambda: self.refresh((topic,)))
        except KafkaError as error:
            if error.code is not ErrorCode.unknown_topic_or_partition:
                raise
            raise KafkaError(
                error.code, f"topic {topic!r}{await self._suggestion(topic)}"
            ) from error
        return list(self.view.topics[topic].partitions)

    async def _suggestion(self, topic: str) -> str:
        try:
            await self.refresh(None)
        except (KafkaError, PeerError):  # the missing topic is the error to report
            return ""
        import difflib  # for an error only

        near = difflib.get_close_matches(topic, self.view.topics, 1)
        return f"; did you mean {near[0]!r}?" if near else ""

    async def controller(self) -> BrokerConnection:
        """A connection to the controller, the broker that creates and deletes topics."""
        if self.view.controller_id not in self.view.brokers:
            await self.refresh(())
        if self.view.controller_id in self.view.brokers:
            return await self.broker(self.view.controller_id)
        return await self.any()

    async def _connect(self, address: Address) -> BrokerConnection:
        if self._is_closed:  # a call that goes on for a moment opens none anew
            raise ConnectionLost(f"broker {address}: connection closed by us")
        link = self._links.get(address)
        if link is None:
            opening = partial(
                BrokerConnection.open, address, self.options, self.memory, self._access
            )
            link = self._links[address] = Link(str(address), opening)
        return await link.connection()

    # -- metadata and retries ------------------------------------------------------------

    async def refresh(
        self, topics: Collection[str] | None, *, create_missing: bool = False
    ) -> None:
        """Request metadata of `topics`; () stands for brokers only, None for all topics.

        Raises:
            KafkaError: a topic does not exist, has no leader yet, or may not be described.
        """
        refused = await self.look_up(topics, create_missing=create_missing)
        for name, code in refused.items():
            raise refusal(CREATING if create_missing else "metadata", code, f"topic {name!r}")

    async def look_up(
        self, topics: Collection[str] | None, *, create_missing: bool = False
    ) -> dict[str, ErrorCode]:
        """Like `refresh`, but returns the refused topics with their errors."""
        connection = await self.any()
        wanted = [MetadataRequestTopic(topic_id=None, name=each) for each in topics or ()]
        request = MetadataRequest(
            topics=None if topics is None else tuple(wanted),
            allow_auto_topic_creation=create_missing,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
        )
        response = await connection.request("metadata", request)
        code = getattr(response, "error_code", ErrorCode.none)
        if code is not ErrorCode.none:
            raise KafkaError(code, "metadata")
        if topics is None:
            self.view.topics.clear()
        return self.view.update(response)

    async def retrying(
        self,
        attempt: Callable[[], Awaitable[T]],
        *,
        topics: Collection[str] = (),
        deadline: Deadline | None = None,
        missing_s: float = UNKNOWN_TOPIC_PATIENCE_S,
    ) -> T:
        """Retry `attempt` until it succeeds or fails for good, refreshing metadata of `topics`.

        After a failure, the next attempt looks up coordinators again.
        """

        async def try_once() -> T:
            try:
                return await attempt()
            except Exception:
                self.view.coordinators.clear()
                raise

        async def before_retry(error: BaseException) -> None:
            if is_stale_metadata(error):
                await self.refresh(topics)

        return await retrying(
            try_once,
            deadline=deadline or Deadline(self.options.patience_ms),
            options=self.options,
            before_retry=before_retry,
            missing_s=missing_s,
        )
