"""The cluster as this broker knows it, in memory. Read freely; changed by the store alone.

What stands in the image is immutable: a change replaces it, so a reader may keep what it got
for the length of a request.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final, NamedTuple
from uuid import UUID

from drumlin.metadata.names import INTERNAL_TOPICS, collision_key

NO_LEADER: Final = -1


class ResourceType(enum.IntEnum):
    """What a configuration belongs to; the numbers are the protocol's."""

    TOPIC = 2
    BROKER = 4
    GROUP = 32


class Resource(NamedTuple):
    """Owner of a configuration. A broker without a name: the default for all brokers."""

    type: ResourceType
    name: str


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where clients find a broker by one of its listeners."""

    listener: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class BrokerState:
    """A broker that is alive."""

    node_id: int
    rack: str | None
    endpoints: tuple[Endpoint, ...]
    #: A later process of the same broker has a larger one (KIP-903); -1: not registered yet.
    epoch: int = -1

    def endpoint(self, listener: str) -> Endpoint | None:
        """Where clients of the listener of that name find the broker."""
        return next((each for each in self.endpoints if each.listener == listener), None)


class PartitionId(NamedTuple):
    """A partition of one topic and of no other that ever has its name."""

    topic_id: UUID
    partition: int


class ReplicaAssignment(NamedTuple):
    """The brokers that have replicas of a partition, the preferred leader first.

    While it is reassigned, `replicas` are the target and then those of before that are to go:
    `removing`. Those that are not there yet are `adding` (KIP-455).
    """

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()


class LogEnd(NamedTuple):
    """Where a log ends: the leader epoch of its last record, and the log end offset.

    Of two replicas that had all that was committed, the one with the larger end has more of it.
    """

    leader_epoch: int
    end_offset: int


#: Of a replica that has no log at all.
NO_LOG: Final = LogEnd(-1, -1)


class LastKnown(NamedTuple):
    """A replica that may lack records since it came back, and what it came back with.

    was_complete: it had all that was committed when it stopped, so it lacks at most what was not on
        its disk then. Not so for a log that is gone, or was put back from a copy.
    """

    node_id: int
    log_end: LogEnd
    was_complete: bool


@dataclass(frozen=True, slots=True)
class PartitionState:
    """The replicas of a partition, and which of them leads it."""

    index: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    #: Counts the changes of leader and ISR: a later state has a larger one (KIP-497).
    partition_epoch: int = 0
    #: See `ReplicaAssignment`.
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    #: Eligible leader replicas (KIP-966): not in sync, but they have all that is committed.
    elr: tuple[int, ...] = ()
    #: See `eligible.py`; only while too few are in sync for anything to be committed.
    last_known: tuple[LastKnown, ...] = ()
    #: Who led it last, while nobody does.
    last_leader: int = NO_LEADER

    @property
    def assignment(self) -> ReplicaAssignment:
        return ReplicaAssignment(self.replicas, self.adding, self.removing)

    @property
    def is_reassigned(self) -> bool:
        """Whether a reassignment is under way."""
        return bool(self.adding or self.removing)

    def with_assignment(self, assignment: ReplicaAssignment) -> PartitionState:
        replicas, adding, removing = assignment
        return replace(self, replicas=replicas, adding=adding, removing=removing)


@dataclass(frozen=True, slots=True)
class TopicState:
    """A topic; `partitions[i].index == i`."""

    name: str
    topic_id: UUID
    partitions: tuple[PartitionState, ...]

    @property
    def is_internal(self) -> bool:
        return self.name in INTERNAL_TOPICS

    def partition(self, index: int) -> PartitionState | None:
        return self.partitions[index] if 0 <= index < len(self.partitions) else None

    def with_states(self, states: Mapping[int, PartitionState]) -> TopicState:
        """The topic with these partitions in place of those with the same index."""
        partitions = tuple(states.get(each.index, each) for each in self.partitions)
        return replace(self, partitions=partitions)


_NO_CONFIGS: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(slots=True)
class ClusterImage:
    """Brokers, topics and configurations, by what they are looked up with."""

    cluster_id: str
    controller_id: int = -1
    #: How often a controller was elected; 0 where none ever is, as one process owns the metadata.
    controller_epoch: int = 0
    #: False: others may have changed it meanwhile, of which we cannot hear.
    is_current: bool = True
    brokers: dict[int, BrokerState] = field(default_factory=dict)
    topics: dict[str, TopicState] = field(default_factory=dict)
    topics_by_id: dict[UUID, TopicState] = field(default_factory=dict)
    _configs: dict[Resource, Mapping[str, str]] = field(default_factory=dict)
    _names_by_collision_key: dict[str, set[str]] = field(default_factory=dict)

    def alive(self) -> dict[int, int]:
        """The brokers that are alive, and their epochs."""
        return {each.node_id: each.epoch for each in self.brokers.values()}

    def configs(self, resource: Resource) -> Mapping[str, str]:
        """What was set for the resource; empty for one that has nothing, or does not exist."""
        return self._configs.get(resource, _NO_CONFIGS)

    def configured(self, resource_type: ResourceType) -> list[str]:
        """Names of the resources of one type for which something was set."""
        return [each.name for each in self._configs if each.type is resource_type]

    def all_configured(self) -> list[Resource]:
        """The resources for which something was set."""
        return list(self._configs)

    def topic_configs(self, topic: str) -> Mapping[str, str]:
        return self.configs(Resource(ResourceType.TOPIC, topic))

    def broker_configs(self, name: str) -> Mapping[str, str]:
        """What was set for one broker, or for all of them where `name` is empty."""
        return self.configs(Resource(ResourceType.BROKER, name))

    def topic_name(self, topic_id: UUID | None) -> str | None:
        """The name of the topic with that id, if there is one."""
        topic = self.topics_by_id.get(topic_id) if topic_id is not None else None
        return None if topic is None else topic.name

    def has_partition(self, topic_id: UUID, index: int) -> bool:
        """Whether there is a topic with that id, and with that many partitions."""
        topic = self.topics_by_id.get(topic_id)
        return topic is not None and topic.partition(index) is not None

    def has_partition_of(self, name: str, index: int) -> bool:
        """Like `has_partition`, for a topic's name."""
        topic = self.topics.get(name)
        return topic is not None and topic.partition(index) is not None

    def colliding_names(self, name: str) -> set[str]:
        """Existing topics that metrics could not tell from `name`, itself included."""
        return self._names_by_collision_key.get(collision_key(name), set())

    # -- changes, for the store ----------------------------------------------------------

    def put_broker(self, broker: BrokerState) -> None:
        self.brokers[broker.node_id] = broker

    def remove_broker(self, node_id: int) -> None:
        self.brokers.pop(node_id, None)

    def put_topic(self, topic: TopicState) -> None:
        self.topics[topic.name] = topic
        self.topics_by_id[topic.topic_id] = topic
        self._names_by_collision_key.setdefault(collision_key(topic.name), set()).add(topic.name)

    def remove_topic(self, topic: TopicState) -> None:
        """Forget a topic and its configuration."""
        del self.topics[topic.name]
        del self.topics_by_id[topic.topic_id]
        key = collision_key(topic.name)
        self._names_by_collision_key[key].discard(topic.name)
        if not self._names_by_collision_key[key]:
            del self._names_by_collision_key[key]
        self._configs.pop(Resource(ResourceType.TOPIC, topic.name), None)

    def put_configs(self, resource: Resource, configs: Mapping[str, str]) -> None:
        if configs:
            self._configs[resource] = MappingProxyType(dict(configs))
        else:
            self._configs.pop(resource, None)
