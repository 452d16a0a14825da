"""The objects that the parts of one ZooKeeper store share. Contains no rules."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from drumlin.config.topic import log_config
from drumlin.metadata.rules.decisions import TopicRules
from drumlin.metadata.store.mutations import Listeners, Locks
from drumlin.metadata.zookeeper.states.partition_states import PartitionStates
from drumlin.metadata.zookeeper.states.states import Place, Writer
from drumlin.turns import give_way

if TYPE_CHECKING:
    from uuid import UUID

    from drumlin.config.broker import BrokerConfig
    from drumlin.metadata.image import ClusterImage, PartitionId
    from drumlin.metadata.rules.election_counts import ElectionCounts
    from drumlin.metadata.zookeeper.brokers.controllership import Controllership
    from drumlin.metadata.zookeeper.brokers.registration import Registration
    from drumlin.metadata.zookeeper.deletion.deleted_topics import Deletions
    from drumlin.metadata.zookeeper.session.commits import Commits
    from drumlin.metadata.zookeeper.znodes.operations import BrokerFence

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Parts:
    """One object of each kind."""

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
        """The fence for this broker's writes of states, whether it is the controller or not.

        Raises:
            KafkaError: NOT_CONTROLLER: the broker is not registered.
        """
        return Writer(fence or self.registration.held(), self.controllership.epoch)

    def rules(self, topic: str) -> TopicRules:
        defaults = self.config.topic_defaults()
        return TopicRules.of(topic, log_config(self.image.topic_configs(topic), defaults))

    async def places(self, partitions: Iterable[PartitionId]) -> list[Place]:
        """The partitions that this broker knows, with all data that a decision in a thread
        needs.
        """
        places: list[Place] = []
        rules: dict[UUID, TopicRules] = {}
        for topic_id, index in partitions:
            topic = self.image.topics_by_id.get(topic_id)
            state = None if topic is None else topic.partition(index)
            if topic is not None and state is not None:
                if topic_id not in rules:
                    rules[topic_id] = self.rules(topic.name)
                places.append(Place(topic_id, rules[topic_id], state))
            await give_way()
        return places

    def report(self, problem: str) -> None:
        """Log a problem with the contents of ZooKeeper, once."""
        if problem not in self._problems:
            self._problems.add(problem)
            _log.error("%s", problem)

    def report_again(self) -> None:
        """After an outage, log problems once more if they are found again."""
        self._problems.clear()
