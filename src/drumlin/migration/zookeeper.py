"""ZooKeeper as an offset store, for offsets of Kafka's old high-level consumers.

Never decides what to write. Calls block, and only one thread at a time may make them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from drumlin.client.admin.committed_offsets import OffsetAndMetadata
from drumlin.client.topic_partition import TopicPartition, as_partitions, by_partition
from drumlin.migration.store_error import StoreError, StoreUnavailable
from drumlin.migration.stores import Positions, Refusals
from drumlin.zookeeper.access import access_in
from drumlin.zookeeper.connection import ZooKeeperAway, ZooKeeperFailure, close_client, connect
from drumlin.zookeeper.consumer_offsets import (
    ANY_VERSION,
    CONSUMERS,
    ConsumerOffsets,
    Watch,
    ZooKeeperOffset,
    group_path,
)

if TYPE_CHECKING:
    from kazoo.client import KazooClient


@contextlib.contextmanager
def as_store_errors() -> Iterator[None]:
    """Translate errors of ZooKeeper.

    Raises:
        StoreUnavailable: there is no answer.
        StoreError: ZooKeeper refuses the request, or cannot be used.
    """
    try:
        yield
    except ZooKeeperAway as error:
        raise StoreUnavailable(str(error)) from None
    except ZooKeeperFailure as error:
        raise StoreError(str(error)) from error.__cause__


def open_client(
    hosts: str,
    properties: Mapping[str, str] = MappingProxyType({}),
    *,
    session_timeout_ms: int = 10_000,
) -> KazooClient:
    """Connect to "host:port,host:port/chroot".

    `properties` may configure TLS and authentication, with a broker's keys. Raises like
    `as_store_errors`, also if the chroot does not exist.
    """
    with as_store_errors():
        return connect(
            hosts,
            session_timeout_ms=session_timeout_ms,
            connection_timeout_ms=session_timeout_ms,
            access=access_in(properties),
        )


@contextlib.contextmanager
def connected(
    hosts: str,
    properties: Mapping[str, str] = MappingProxyType({}),
    session_timeout_ms: int = 10_000,
) -> Iterator[KazooClient]:
    """Like `open_client`, as a context that closes the client at its end."""
    client = open_client(hosts, properties, session_timeout_ms=session_timeout_ms)
    try:
        yield client
    finally:
        close_client(client)


def _count(each: Collection[object], name: str) -> str:
    return f"{len(each)} {name}{'s' if len(each) != 1 else ''}"


class ZooKeeperStore:
    """Offsets below `/consumers`. All calls raise like `as_store_errors`."""

    def __init__(self, client: KazooClient, name: str, *, timeout_ms: int = 10_000) -> None:
        self.name = name
        self._nodes = ConsumerOffsets(client, name, timeout_ms=timeout_ms)
        self.notes = self._nodes.notes

    # -- the interface of a store ----------------------------------------------------------

    def groups(self) -> list[str]:
        with as_store_errors():
            return sorted(self._nodes.children(CONSUMERS))

    def read(self, group: str) -> dict[TopicPartition, OffsetAndMetadata]:
        found = self.read_nodes(group, self.partitions(group))
        return {place: OffsetAndMetadata(each.offset) for place, each in found.items()}

    def write(self, group: str, positions: Positions) -> Refusals:
        wanted = {place: (each.offset, ANY_VERSION) for place, each in positions.items()}
        return self.write_nodes(group, wanted)

    def live_consumers(self, group: str) -> str | None:
        with as_store_errors():
            consumers = self._nodes.children(f"{group_path(group)}/ids")
            owned = self._nodes.owned_partitions(group)
        if not consumers and not owned:
            return None
        return f"{_count(consumers, 'consumer')}, {_count(owned, 'owned partition')}"

    # -- nodes -----------------------------------------------------------------------------

    def check_connected(self) -> None:
        """Raise StoreUnavailable while there is no connection."""
        with as_store_errors():
            self._nodes.check_connected()

    def partitions(self, group: str, watch: Watch | None = None) -> list[TopicPartition]:
        """The partitions that have an offset node."""
        with as_store_errors():
            return as_partitions(self._nodes.partitions(group, watch))

    def read_nodes(
        self, group: str, places: Iterable[TopicPartition], watch: Watch | None = None
    ) -> dict[TopicPartition, ZooKeeperOffset]:
        """The offsets of these partitions, except missing or unreadable ones."""
        with as_store_errors():
            found = self._nodes.read_nodes(group, places, watch)
        self.notes += [f"{each}, left alone" for each in found.unreadable.values()]
        return by_partition(found.offsets)

    def write_nodes(
        self, group: str, offsets: Mapping[TopicPartition, tuple[int, int]]
    ) -> Refusals:
        """Write offsets, each with the expected version of its node, `ANY_VERSION` or `ABSENT`.

        Returns the refusals: nodes that have changed, or that may not be written.
        """
        with as_store_errors():
            return self._nodes.write_nodes(group, offsets)
