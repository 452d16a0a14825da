"""What the parts of one ZooKeeper store share; owns no rule."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from drumlin.config.topic import log_config
from drumlin.metadata.store.mutations import Listeners, Locks
from drumlin.metadata.zookeeper.states.partition_states import PartitionStates
from drumlin.metadata.zookeeper.states.states import Writer
from drumlin.turns import give_way

if TYPE_CHECKING:
    from drumlin.config.broker import BrokerConfig
    from drumlin.metadata.image import ClusterImage
    from drumlin.metadata.rules.election_counts import ElectionCounts
    from drumlin.metadata.zookeeper.brokers.controllership import Controllership
    from drumlin.metadata.zookeeper.brokers.registration import Registration
    from drumlin.metadata.zookeeper.deletion.deleted_topics import Deletions
    from drumlin.metadata.zookeeper.session.commits import Commits
    from drumlin.metadata.zookeeper.znodes.operations import BrokerFence

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Parts:
    """One of each."""

    config: BrokerConfig
    image: ClusterImage
    commits: Commits
    registration: Registration
    controllership: Controllership
    deletions: Deletions
    elections: ElectionCounts
    locks: Locks = field(default_factory=Locks)
    listeners: Listeners = field(default_factory=Listeners)
    states: PartitionStates = field(init=False)
    _problems: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.states = PartitionStates(self.image, self.listeners)

    def writer(self, fence: BrokerFence | None = None) -> Writer:
        """Who writes states for this broker, which is not asked whether it is the controller.

        Raises:
            KafkaError: NOT_CONTROLLER: it is not registered.
        """
        return Writer(fence or self.registration.held(), self.controllership.epoch)

    def min_isr(self, topic: str) -> int:
        """What a topic has as `min.insync.replicas`."""
        defaults = self.config.topic_defaults()
        return log_config(self.image.topic_configs(topic), defaults).min_insync_replicas

    async def min_isrs(self, topics: Iterable[str]) -> dict[str, int]:
        """The same of several, for what is decided in a thread."""
        found: dict[str, int] = {}
        for topic in topics:
            if topic not in found:
                found[topic] = self.min_isr(topic)
            await give_way()
        return found

    def say(self, problem: str) -> None:
        """Tell the operator of something in ZooKeeper that is not as it should be: once."""
        if problem not in self._problems:
            self._problems.add(problem)
            _log.error("%s", problem)

    def say_again(self) -> None:
        """What is wrong after an outage is told, though it may have been so before."""
        self._problems.clear()
