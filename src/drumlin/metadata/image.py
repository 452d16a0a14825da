"""The cluster as this broker knows it, in memory. Anyone may read it; only the store changes it.

The values in the image are immutable: a change replaces them, so a reader may keep a value for the
length of a request.
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
    """The kind of resource that a configuration belongs to; the numbers are the protocol's."""

    TOPIC = 2
    BROKER = 4
    GROUP = 32


class Resource(NamedTuple):
    """The owner of a configuration. A broker without a name: the default of all brokers."""

    type: ResourceType
    name: str


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address of one of a broker's listeners, as advertised to clients."""

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
        """The address of the listener with that name."""
        return next((each for each in self.endpoints if each.listener == listener), None)


class PartitionId(NamedTuple):
    """A partition of one topic; a later topic with the same name has another id."""

    topic_id: UUID
    partition: int


class ReplicaAssignment(NamedTuple):
    """The brokers that have replicas of a partition, the preferred leader first.

    During a reassignment (KIP-455), `replicas` are the target replicas, followed by those that are
    to be removed: `removing`. `adding` are the target replicas that are new.
    """

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()


class LogEnd(NamedTuple):
    """The end of a log: the leader epoch of its last record, and the log end offset.

    Of two replicas that had all committed records, the one with the larger end has more of them.
    """

    leader_epoch: int
    end_offset: int


#: The end of the log of a replica that has none.
NO_LOG: Final = LogEnd(-1, -1)


class LastKnown(NamedTuple):
    """A replica that may have lost records in an unclean stop, and the end of its log since then.

    was_complete: it had all committed records when it stopped, so it lacks at most those that were
        not on its disk yet. False for a log that is gone, or was restored from a copy.
    """

    node_id: int
    log_end: LogEnd
    was_complete: bool


@dataclass(frozen=True, slots=True)
class PartitionState:
    """The state of a partition: its replicas, its leader, and which replicas are in sync."""

    index: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    #: The number of changes of leader and ISR: a later state has a larger one (KIP-497).
    partition_epoch: int = 0
    #: See `ReplicaAssignment`.
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    #: Eligible leader replicas (KIP-966): not in sync, but they have all committed records.
    elr: tuple[int, ...] = ()
    #: See `eligible.py`. Empty unless fewer than `min.insync.replicas` are in sync.
    last_known: tuple[LastKnown, ...] = ()
    #: The last leader, while there is none.
    last_leader: int = NO_LEADER

    @property
    def assignment(self) -> ReplicaAssignment:
        return ReplicaAssignment(self.replicas, self.adding, self.removing)

    @property
    def is_reassigned(self) -> bool:
        """Whether a reassignment is in progress."""
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
        """The topic with these states of partitions, by index."""
        partitions = tuple(states.get(each.index, each) for each in self.partitions)
        return replace(self, partitions=partitions)


_NO_CONFIGS: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(slots=True)
class ClusterImage:
    """The brokers, topics and configurations of the cluster."""

    cluster_id: str
    controller_id: int = -1
    #: The number of controller elections; 0 in the embedded store, which has a single controller.
    controller_epoch: int = 0
    #: False while the source of the metadata is out of reach: the image may be outdated.
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
        """The configuration that was set for the resource; empty if none was."""
        return self._configs.get(resource, _NO_CONFIGS)

    def configured(self, resource_type: ResourceType) -> list[str]:
        """The names of all resources of one type that have a configuration."""
        return [each.name for each in self._configs if each.type is resource_type]

    def all_configured(self) -> list[Resource]:
        """All resources that have a configuration."""
        return list(self._configs)

    def topic_configs(self, topic: str) -> Mapping[str, str]:
        return self.configs(Resource(ResourceType.TOPIC, topic))

    def broker_configs(self, name: str) -> Mapping[str, str]:
        """The configuration of one broker, or the default of all brokers if `name` is empty."""
        return self.configs(Resource(ResourceType.BROKER, name))

    def topic_name(self, topic_id: UUID | None) -> str | None:
        """The name of the topic with that id, if there is one."""
        topic = self.topics_by_id.get(topic_id) if topic_id is not None else None
        return None if topic is None else topic.name

    def has_partition(self, topic_id: UUID, index: int) -> bool:
        """Whether there is a topic with that id that has this partition."""
        topic = self.topics_by_id.get(topic_id)
        return topic is not None and topic.partition(index) is not None

    def has_partition_of(self, name: str, index: int) -> bool:
        """Like `has_partition`, for a topic's name."""
        topic = self.topics.get(name)
        return topic is not None and topic.partition(index) is not None

    def colliding_names(self, name: str) -> set[str]:
        """Existing topics whose metrics would have the same names as those of `name`."""
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
        """Remove a topic and its configuration."""
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
