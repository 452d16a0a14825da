"""The image of the cluster in this broker's memory. All code may read it; only the store changes
it.

The values in the image are immutable: a change replaces them, so a reader may keep a value during a
request.
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
    """The type of a resource with a configuration; the numbers are the protocol's, below 256."""

    TOPIC = 2
    BROKER = 4
    #: A subscription to metrics of clients (KIP-714).
    CLIENT_METRICS = 16
    GROUP = 32
    #: A user's SCRAM credentials, by mechanism. They are secrets: no request reveals more of them
    #: than DescribeUserScramCredentials.
    USER = 256
    #: A resource pattern of ACLs; the keys are its ACLs.
    ACL = 257
    #: An owner of client quotas, named by its path in ZooKeeper: users/alice/clients/<default>.
    QUOTA = 258
    #: A delegation token.
    TOKEN = 259


#: The types that requests about configurations may name.
CONFIGURABLE: Final = (
    ResourceType.TOPIC,
    ResourceType.BROKER,
    ResourceType.CLIENT_METRICS,
    ResourceType.GROUP,
)


class Resource(NamedTuple):
    """The owner of a configuration. A broker without a name stands for the default of all
    brokers.
    """

    type: ResourceType
    name: str


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address of one of a broker's listeners, as advertised to clients."""

    listener: str
    host: str
    port: int
    #: The security protocol, for tools that read ZooKeeper; other stores do not publish it.
    protocol: str = "PLAINTEXT"


@dataclass(frozen=True, slots=True)
class BrokerState:
    """A live broker."""

    node_id: int
    rack: str | None
    endpoints: tuple[Endpoint, ...]
    #: A later process of the same broker has a higher epoch (KIP-903); -1 if not registered yet.
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

    During a reassignment (KIP-455), `replicas` has the target replicas, followed by those in
    `removing`, which will be removed. `adding` has the new target replicas.
    """

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()


class LogEnd(NamedTuple):
    """The end of a log: the leader epoch of its last record, and the log end offset.

    Of two replicas that had all committed records, the one with the higher log end has kept more.
    """

    leader_epoch: int
    end_offset: int


#: The log end of a replica without a log.
NO_LOG: Final = LogEnd(-1, -1)


class LastKnown(NamedTuple):
    """A replica that may have lost records in an unclean stop, and its present log end.

    was_complete: whether it had all committed records when it stopped, so that it lacks at most
        those not yet on its disk. False for a log that is lost or was restored from a copy.
    """

    node_id: int
    log_end: LogEnd
    was_complete: bool


@dataclass(frozen=True, slots=True)
class PartitionState:
    """The state of a partition: its replicas, its leader, and its ISR."""

    index: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    #: The partition epoch: the number of changes of leader and ISR (KIP-497).
    partition_epoch: int = 0
    #: See `ReplicaAssignment`.
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    #: Eligible leader replicas (KIP-966): not in sync, but with all committed records.
    elr: tuple[int, ...] = ()
    #: See `eligible.py`. Empty unless fewer than `min.insync.replicas` are in sync.
    last_known: tuple[LastKnown, ...] = ()
    #: The last leader, while there is no leader.
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
        """The topic with new states of partitions, by index."""
        partitions = tuple(states.get(each.index, each) for each in self.partitions)
        return replace(self, partitions=partitions)


_NO_CONFIGS: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(slots=True)
class ClusterImage:
    """The brokers, topics and configurations of the cluster."""

    cluster_id: str
    controller_id: int = -1
    #: The controller epoch; 0 in the embedded store, which has a single controller.
    controller_epoch: int = 0
    #: False while the source of the metadata is unreachable, so the image may be outdated.
    is_current: bool = True
    brokers: dict[int, BrokerState] = field(default_factory=dict)
    topics: dict[str, TopicState] = field(default_factory=dict)
    topics_by_id: dict[UUID, TopicState] = field(default_factory=dict)
    _configs: dict[Resource, Mapping[str, str]] = field(default_factory=dict)
    _names_by_collision_key: dict[str, set[str]] = field(default_factory=dict)

    def alive(self) -> dict[int, int]:
        """The live brokers and their epochs."""
        return {each.node_id: each.epoch for each in self.brokers.values()}

    def configs(self, resource: Resource) -> Mapping[str, str]:
        """The configuration set for the resource; empty if there is none."""
        return self._configs.get(resource, _NO_CONFIGS)

    def configured(self, resource_type: ResourceType) -> list[str]:
        """The names of all resources of this type that have a configuration."""
        return [each.name for each in self._configs if each.type is resource_type]

    def all_configured(self) -> list[Resource]:
        """All resources that have a configuration."""
        return list(self._configs)

    def topic_configs(self, topic: str) -> Mapping[str, str]:
        return self.configs(Resource(ResourceType.TOPIC, topic))

    def broker_configs(self, name: str) -> Mapping[str, str]:
        """The configuration of a broker or, if `name` is empty, the default of all brokers."""
        return self.configs(Resource(ResourceType.BROKER, name))

    def topic_name(self, topic_id: UUID | None) -> str | None:
        """The name of the topic with that id, if there is one."""
        topic = self.topics_by_id.get(topic_id) if topic_id is not None else None
        return None if topic is None else topic.name

    def has_partition(self, topic_id: UUID, index: int) -> bool:
        """Whether the topic with that id exists and has this partition."""
        topic = self.topics_by_id.get(topic_id)
        return topic is not None and topic.partition(index) is not None

    def has_partition_of(self, name: str, index: int) -> bool:
        """Like `has_partition`, by a topic's name."""
        topic = self.topics.get(name)
        return topic is not None and topic.partition(index) is not None

    def colliding_names(self, name: str) -> set[str]:
        """Existing topics whose metrics would collide with those of a topic called `name`."""
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
