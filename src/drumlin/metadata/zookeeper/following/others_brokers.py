"""Changes of live brokers and of the controller: applied to the image and reported."""

from __future__ import annotations

from drumlin.metadata.store.changes import BrokersChanged
from drumlin.metadata.zookeeper.brokers.live_brokers import SeenBrokers, read_brokers
from drumlin.metadata.zookeeper.parts import Parts
from drumlin.metadata.zookeeper.session.session import Session


class BrokerChanges:
    """Reads the brokers; called only by the `Follower`."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def look(self) -> bool:
        """Read the brokers; returns whether any broker has come, gone, or begun another epoch."""
        parts = self._parts
        seen = await parts.commits.run(_read)
        for problem in seen.problems:
            parts.report(problem)
        for node_id in seen.others:
            parts.report(
                f"broker {node_id} has registered in ZooKeeper on {parts.commits.session.hosts}, "
                "and is not a Drumlin broker: the two cannot be in one cluster, so stop it"
            )
        own = parts.registration.broker
        if own is not None:
            seen.alive[own.node_id] = own
        image, alive = parts.image, seen.alive
        if image.brokers == alive:
            return False
        for node_id in image.brokers.keys() - alive.keys():
            image.remove_broker(node_id)
        for broker in alive.values():
            image.put_broker(broker)
        parts.listeners.tell(BrokersChanged())
        return True

    def show_controller(self) -> None:
        """Show the controller in the image."""
        found, image = self._parts.controllership, self._parts.image
        image.controller_epoch = found.epoch
        if image.controller_id != found.controller_id:
            image.controller_id = found.controller_id
            self._parts.listeners.tell(BrokersChanged())


def _read(session: Session) -> SeenBrokers:
    return read_brokers(session, is_watched=True)
