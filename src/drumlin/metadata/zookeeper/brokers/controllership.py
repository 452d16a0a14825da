"""Whether this broker is the controller, and which one is.

Only a controller gives partitions to leaders of its own accord; that is fenced by `fence`.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from drumlin.metadata.zookeeper.brokers.controller_node import NO_CONTROLLER, elect

if TYPE_CHECKING:
    from drumlin.clock import Clock
    from drumlin.metadata.zookeeper.brokers.registration import Registration
    from drumlin.metadata.zookeeper.session.commits import Commits
    from drumlin.metadata.zookeeper.znodes.operations import ControllerFence

_log = logging.getLogger(__name__)


class Controllership:
    """As the broker of one store knows it."""

    def __init__(self, commits: Commits, registration: Registration, clock: Clock) -> None:
        self._commits = commits
        self._registration = registration
        self._clock = clock
        self._turn = asyncio.Lock()
        self.controller_id = NO_CONTROLLER
        #: Of the last controller that is known here.
        self.epoch = 0
        #: None: another broker is the controller, or none.
        self.fence: ControllerFence | None = None

    async def keep(self) -> bool:
        """Watch the office, and run for it if it is free; whether it is ours since now.

        Raises:
            UnreadableNode: there is no telling whose it is.
            ZooKeeperFailure: ZooKeeper is away, or does not let us.
        """
        async with self._turn:
            before = self.fence
            found = await self._commits.run(
                elect, self._registration.fence, before, self._clock.wall_ms()
            )
            self.controller_id, self.epoch, self.fence = found
            if self.fence == before:
                return False
            if self.fence is None:
                _log.info("broker %d is the controller now", self.controller_id)
                return False
            _log.info(
                "broker %d is the controller, in epoch %d", self.controller_id, self.fence.epoch
            )
            return True
