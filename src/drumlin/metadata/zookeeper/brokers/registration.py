"""The registration of this broker, at its start and again after a loss.

The broker's mutations are fenced by `held`: nothing is written without a registration.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace

from drumlin.clock import Clock
from drumlin.metadata.image import BrokerState
from drumlin.metadata.zookeeper.brokers.registration_nodes import (
    begin_epoch,
    check_other_programs,
    is_held,
    raise_epoch,
    register,
)
from drumlin.metadata.zookeeper.session.commits import Commits
from drumlin.metadata.zookeeper.session.failures import not_registered
from drumlin.metadata.zookeeper.znodes.operations import BrokerFence

_log = logging.getLogger(__name__)

#: Called in a new broker epoch, before the broker registers.
Preparation = Callable[["BrokerFence"], Awaitable[None]]


class Registration:
    """The registration of one store's broker."""

    def __init__(self, commits: Commits, clock: Clock, timeout_s: float) -> None:
        self._commits = commits
        self._clock = clock
        self._timeout_s = timeout_s
        self._turn = asyncio.Lock()
        #: The broker, with the epoch of its last registration.
        self.broker: BrokerState | None = None
        self.fence: BrokerFence | None = None
        #: See `store.MetadataStore.broker_epoch`.
        self.epoch = -1
        self._is_over = False

    def held(self) -> BrokerFence:
        """The fence of the current registration, for writes.

        Raises:
            KafkaError: NOT_CONTROLLER: the broker is not registered; clients retry.
        """
        if self.fence is None:
            raise not_registered()
        return self.fence

    async def take(self, broker: BrokerState, prepare: Preparation | None) -> None:
        """Register the broker for the first time.

        Raises:
            UnusableMetadata: the broker must not register.
            KafkaError: an error of `prepare`.
        """
        async with self._turn:
            await self._commits.run(check_other_programs, broker.node_id)
            await self._take(broker, prepare)

    async def _take(self, broker: BrokerState, prepare: Preparation | None) -> None:
        run = self._commits.run
        # Unknown until there is an answer: the broker may stop in an epoch that has just begun.
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
        """Check and watch the registration; if it was lost, registers again and returns True.

        A process that registers again has lost no records.

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
        """Never register again."""
        self._is_over = True

    async def withdraw(self) -> BrokerFence:
        """Begin an epoch that no other broker knows, so that none adds this broker to an ISR again.

        Raises:
            Conflict, ZooKeeperFailure: the epoch has not begun, or the outcome is unknown.
            KafkaError: NOT_CONTROLLER: the broker is not registered.
        """
        async with self._turn:
            held, self.epoch = self.held(), -1  # unknown until there is an answer
            self.fence = await self._commits.run(raise_epoch, held)
            self.epoch = self.fence.epoch
            return self.fence
