"""The stores that conform: how a test opens each of them, again and again on the same data."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from pathlib import Path
from typing import Any

from drumlin.clock import Clock, SystemClock
from drumlin.config.broker import BrokerConfig
from drumlin.config.topic import log_config
from drumlin.metadata.embedded.metadata import EmbeddedMetadata
from drumlin.metadata.embedded.sqlite import SqliteMetadata
from drumlin.metadata.image import BrokerState
from drumlin.metadata.opening import configs_in
from drumlin.metadata.shared.authority import Authority
from drumlin.metadata.shared.channel import Channel
from drumlin.metadata.shared.metadata import SharedMetadata
from drumlin.metadata.store.mutations import ImmediateListeners
from drumlin.metadata.store.store import MetadataStore
from drumlin.metadata.zookeeper.metadata import ZooKeeperMetadata

Scenario = Callable[[MetadataStore], Coroutine[Any, Any, None]]


class Stores:
    """One store; each `run` opens it, as another process would."""

    def __init__(
        self, open_store: Callable[[], Awaitable[MetadataStore]], node_id: int = 1
    ) -> None:
        self.open = open_store
        self._node_id = node_id

    def run(self, scenario: Scenario, *, is_registered: bool = True) -> None:
        """Open the store, have it be a broker's, run the scenario, close it."""

        async def run() -> None:
            store = await self.open()
            try:
                if is_registered:
                    await store.register_broker(BrokerState(self._node_id, None, ()))
                await scenario(store)
            finally:
                await store.close()

        asyncio.run(run())


def shared_stores(directory: Path, node_ids: Sequence[int] = (1,)) -> Stores:
    """Stores of a broker that shares one with others, of which none has a process here."""

    async def open_shared() -> MetadataStore:
        owner = SharedOwner(directory, node_ids)
        return await owner.open(node_ids[0], is_last=True)

    return Stores(open_shared, node_ids[0])


def embedded_store(directory: Path, node_id: int = 1) -> EmbeddedMetadata:
    """The store of a broker that is alone. Blocks."""
    store = SqliteMetadata.open(directory)
    return EmbeddedMetadata(store, node_id, configs_in(store.image, BrokerConfig({})))


class SharedOwner:
    """The owner of a store that is shared, and the brokers that share it, all in this process."""

    def __init__(
        self, directory: Path, node_ids: Sequence[int], unclean_topics: Collection[str] = ()
    ) -> None:
        store = SqliteMetadata.open(directory, None, ImmediateListeners())
        self.dropped: list[int] = []
        self.authority = Authority(
            store,
            {node_id: [f"/log/{node_id}"] for node_id in node_ids},
            lambda topic: log_config(
                {
                    **store.image.topic_configs(topic),
                    "unclean.leader.election.enable": str(topic in unclean_topics).lower(),
                },
                BrokerConfig({}).topic_defaults(),
            ),
            self.dropped.append,
        )

    async def open(
        self,
        node_id: int,
        *,
        is_last: bool = False,
        on_end: Callable[[], None] = lambda: None,
    ) -> SharedMetadata:
        """The store of one broker; with the last one that is closed, the owner ends."""
        ours, theirs = socket.socketpair()
        channel = await Channel.open(ours)
        self.authority.connect(node_id, channel)
        channel.start(lambda: None)
        store = await SharedMetadata.open(await Channel.open(theirs), node_id, on_end)
        close = store.close

        async def close_all() -> None:
            if is_last:
                self.authority.stop()
            await close()
            await self.authority.disconnect(node_id)
            if is_last:
                await self.authority.store.close()

        store.close = close_all  # type: ignore[method-assign]
        return store


def stores_at(
    hosts: str,
    node_id: int = 1,
    session_timeout_ms: int = 30_000,
    clock: Clock | None = None,
    **more: str,
) -> Stores:
    """Stores that brokers with this id open in ZooKeeper.

    A session must not end by itself, however long a busy machine leaves this process alone: tests
    end those that are to end.
    """
    settings = {
        "zookeeper.connect": hosts,
        "node.id": str(node_id),
        "zookeeper.session.timeout.ms": str(session_timeout_ms),
        "zookeeper.connection.timeout.ms": "60000",
        **{key.replace("_", "."): value for key, value in more.items()},
    }

    async def open_in_zookeeper() -> MetadataStore:
        return await ZooKeeperMetadata.open(BrokerConfig(settings), clock or SystemClock(), None)

    return Stores(open_in_zookeeper, node_id)
