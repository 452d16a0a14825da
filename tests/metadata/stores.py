"""The stores that conform: how a test opens each of them, again and again on the same data."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from drumlin.clock import Clock, SystemClock
from drumlin.config.broker import BrokerConfig
from drumlin.metadata.image import BrokerState
from drumlin.metadata.store import MetadataStore
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


def stores_at(
    hosts: str,
    node_id: int = 1,
    session_timeout_ms: int = 4000,
    clock: Clock | None = None,
    **more: str,
) -> Stores:
    """Stores that brokers with this id open in ZooKeeper."""
    settings = {
        "zookeeper.connect": hosts,
        "node.id": str(node_id),
        "zookeeper.session.timeout.ms": str(session_timeout_ms),
        **{key.replace("_", "."): value for key, value in more.items()},
    }

    async def open_in_zookeeper() -> MetadataStore:
        return await ZooKeeperMetadata.open(BrokerConfig(settings), clock or SystemClock(), None)

    return Stores(open_in_zookeeper, node_id)
