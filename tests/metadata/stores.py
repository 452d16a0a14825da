"""The stores that conform: how a test opens each of them, again and again on the same data."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from drumlin.metadata.image import BrokerState
from drumlin.metadata.store import MetadataStore

Scenario = Callable[[MetadataStore], Coroutine[Any, Any, None]]


class Stores:
    """One store; each `run` opens it, as another process would."""

    def __init__(self, open_store: Callable[[], Awaitable[MetadataStore]]) -> None:
        self._open = open_store

    def run(self, scenario: Scenario, *, is_registered: bool = True) -> None:
        """Open the store, have it be a broker's, run the scenario, close it."""

        async def run() -> None:
            store = await self._open()
            try:
                if is_registered:
                    await store.register_broker(BrokerState(1, None, ()))
                await scenario(store)
            finally:
                await store.close()

        asyncio.run(run())
