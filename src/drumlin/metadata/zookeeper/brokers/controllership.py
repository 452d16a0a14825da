"""The controller known to this broker, and the fence of its writes while it is the controller.

Only the controller changes leaders by itself.
"""

from __future__ import annotations

import asyncio
import logging

from drumlin.clock import Clock
from drumlin.metadata.zookeeper.brokers.controller_node import NO_CONTROLLER, elect
from drumlin.metadata.zookeeper.brokers.registration import Registration
from drumlin.metadata.zookeeper.session.commits import Commits
from drumlin.metadata.zookeeper.znodes.operations import ControllerFence

_log = logging.getLogger(__name__)


class Controllership:
    """The controllership, as known to one store's broker."""

    def __init__(self, commits: Commits, registration: Registration, clock: Clock) -> None:
        self._commits = commits
        self._registration = registration
        self._clock = clock
        self._turn = asyncio.Lock()
        self.controller_id = NO_CONTROLLER
        #: The epoch of the last known controller.
        self.epoch = 0
        #: The fence of writes; None unless this broker is the controller.
        self.fence: ControllerFence | None = None

    async def keep(self) -> bool:
        """Watch the controller's node, and try to become the controller if there is none.

        Returns:
            Whether this broker has become the controller.

        Raises:
            UnreadableNode: the node is unreadable.
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
