"""Whether this broker is registered: at the start, and again when it is lost.

Its mutations are fenced by `held`. Without it nothing may be written.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from drumlin.metadata.zookeeper.brokers.registration_nodes import (
    begin_epoch,
    check_company,
    is_held,
    raise_epoch,
    register,
)
from drumlin.metadata.zookeeper.session.failures import not_registered

if TYPE_CHECKING:
    from drumlin.clock import Clock
    from drumlin.metadata.image import BrokerState
    from drumlin.metadata.zookeeper.session.commits import Commits
    from drumlin.metadata.zookeeper.znodes.operations import BrokerFence

_log = logging.getLogger(__name__)

#: What is to be done in a new epoch before the broker registers.
Preparation = Callable[["BrokerFence"], Awaitable[None]]


class Registration:
    """Of the broker of one store."""

    def __init__(self, commits: Commits, clock: Clock, timeout_s: float) -> None:
        self._commits = commits
        self._clock = clock
        self._timeout_s = timeout_s
        self._turn = asyncio.Lock()
        #: The broker in the epoch in which it has registered last.
        self.broker: BrokerState | None = None
        self.fence: BrokerFence | None = None
        #: See `store.MetadataStore.broker_epoch`.
        self.epoch = -1
        self._is_over = False

    def held(self) -> BrokerFence:
        """What to write with.

        Raises:
            KafkaError: NOT_CONTROLLER, at which clients try again.
        """
        if self.fence is None:
            raise not_registered()
        return self.fence

    async def take(self, broker: BrokerState, prepare: Preparation | None) -> None:
        """Register the broker for the first time.

        Raises:
            UnusableMetadata: it must not be.
            KafkaError: what `prepare` raises.
            ZooKeeperFailure: ZooKeeper is away, or does not let us.
        """
        async with self._turn:
            await self._commits.run(check_company, broker.node_id)
            await self._take(broker, prepare)

    async def _take(self, broker: BrokerState, prepare: Preparation | None) -> None:
        run = self._commits.run
        # Until there is an answer: an epoch may have begun, and this broker be stopped in it.
        self.epoch = -1
        while True:
            fence = await run(begin_epoch, broker.node_id, self._timeout_s)
            if prepare is not None:
                await prepare(fence)
            if await run(register, broker, fence, self._clock.wall_ms()):
                break
        self.fence, self.epoch = fence._replace(is_registered=True), fence.epoch
        self.broker = replace(broker, epoch=fence.epoch)
        _log.info("broker %d is registered, in epoch %d", broker.node_id, fence.epoch)

    async def keep(self) -> bool:
        """Watch that it is held, and register again if it is not; whether that was so.

        Nothing is lost of what the same process has in its logs.

        Raises:
            UnusableMetadata, ZooKeeperFailure: as `take`.
        """
        async with self._turn:
            broker, was_lost = self.broker, False
            if broker is None:
                return False
            while self.fence is None or not await self._commits.run(is_held, self.fence):
                self.fence = None
                if self._is_over:
                    return False
                was_lost = True
                await self._take(broker, None)
            return was_lost

    def end(self) -> None:
        """It registers no more."""
        self._is_over = True

    async def withdraw(self) -> BrokerFence:
        """Begin an epoch of which no other broker knows: none takes us into an ISR any more.

        Raises:
            Conflict, ZooKeeperFailure: it has not begun, or there is no knowing.
            KafkaError: NOT_CONTROLLER: we are not registered.
        """
        async with self._turn:
            held, self.epoch = self.held(), -1  # until there is an answer
            self.fence = await self._commits.run(raise_epoch, held)
            self.epoch = self.fence.epoch
            return self.fence
