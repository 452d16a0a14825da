"""Whether this broker is registered, and the controller: taken at the start, and again when lost.

What it writes with is `fence`. Without one nothing may be written.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from drumlin.metadata.zookeeper import layout
from drumlin.metadata.zookeeper.commits import not_controller
from drumlin.metadata.zookeeper.membership import join

if TYPE_CHECKING:
    from drumlin.clock import Clock
    from drumlin.metadata.image import BrokerState
    from drumlin.metadata.zookeeper.commits import Commits
    from drumlin.metadata.zookeeper.operations import Fence
    from drumlin.metadata.zookeeper.session import Session

_log = logging.getLogger(__name__)


class Office:
    """Held by the broker of one store."""

    def __init__(self, commits: Commits, clock: Clock, timeout_s: float) -> None:
        self._commits = commits
        self._clock = clock
        self._timeout_s = timeout_s
        self._broker: BrokerState | None = None
        self._turn = asyncio.Lock()
        self.fence: Fence | None = None

    def held(self) -> Fence:
        """What to write with.

        Raises:
            KafkaError: NOT_CONTROLLER.
        """
        if self.fence is None:
            raise not_controller()
        return self.fence

    async def take(self, broker: BrokerState) -> None:
        """Register the broker and become the controller.

        Raises:
            UnusableMetadata: another one is.
            UnreadableNode: there is no telling which epoch it is.
            ZooKeeperFailure: ZooKeeper is away, or does not let us.
        """
        async with self._turn:
            await self._take(broker)

    async def _take(self, broker: BrokerState) -> None:
        self._broker = broker
        self.fence = await self._commits.run(join, broker, self._timeout_s, self._clock)
        _log.info("broker %d is the controller, in epoch %d", broker.node_id, self.fence.epoch)

    async def keep(self) -> bool:
        """Watch that it is held, and take it again if it is not; whether it was taken again.

        Raises:
            UnusableMetadata, UnreadableNode, ZooKeeperFailure: as `take`.
        """
        async with self._turn:
            broker, was_lost = self._broker, False
            if broker is None:
                return False
            while self.fence is None or not await self._commits.run(
                _is_held, broker.node_id, self.fence
            ):
                was_lost, self.fence = True, None
                await self._take(broker)
            return was_lost


def _is_held(session: Session, node_id: int, fence: Fence) -> bool:
    ours = [layout.broker_path(node_id), layout.CONTROLLER]
    nodes = session.read([*ours, layout.CONTROLLER_EPOCH], is_watched=True)
    broker, controller, epoch = nodes
    return (
        broker is not None
        and controller is not None
        and epoch is not None
        and broker.owner == controller.owner == session.session_id
        and epoch.version == fence.version
    )
