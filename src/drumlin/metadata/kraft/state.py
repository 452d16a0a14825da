"""The state that results from Kafka's metadata records: topics, configurations, producer ids. Pure.

It corresponds to the metadata image of Apache Kafka's brokers, as far as that matters here.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final
from uuid import UUID

from drumlin.metadata.image import NO_LEADER
from drumlin.metadata.kraft import messages
from drumlin.metadata.kraft.messages import Message, UnknownRecord

_TOPIC: Final = 2  # the type of a resource
_NO_ID: Final = UUID(int=0)


@dataclass(frozen=True, slots=True)
class KafkaPartition:
    """A partition in Kafka's metadata.

    directories: the ids of the replicas' log dirs, in the order of the replicas; empty if unknown.
    eligible: eligible leader replicas (KIP-966).
    last_known: the last leader, if no replica is in the ISR or eligible.
    """

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    directories: tuple[UUID, ...] = ()
    eligible: tuple[int, ...] = ()
    last_known: tuple[int, ...] = ()

    @property
    def complete(self) -> tuple[int, ...]:
        """The replicas that have all records, as far as Kafka knows.

        When the last replica has stopped, Kafka's ISR is empty and that replica is eligible.
        """
        return self.isr or self.eligible or self.last_known


@dataclass(slots=True)
class KafkaTopic:
    """A topic and its partitions, by partition number."""

    name: str
    topic_id: UUID
    partitions: dict[int, KafkaPartition] = field(default_factory=dict)


@dataclass(slots=True)
class KafkaMetadata:
    """The state of the metadata, built by `apply` record after record."""

    topics: dict[UUID, KafkaTopic] = field(default_factory=dict)
    #: Configurations, by type and name of their resource.
    configs: dict[tuple[int, str], dict[str, str]] = field(default_factory=dict)
    next_producer_id: int = 0
    #: Deleted topics whose deletion is still in the log.
    deleted: set[UUID] = field(default_factory=set)
    #: Security settings that Drumlin does not enforce.
    not_enforced: set[str] = field(default_factory=set)
    #: The number of records so far.
    records: int = 0
    _names: dict[str, UUID] = field(default_factory=dict)
    _undecided: list[Message] | None = None

    def apply(self, value: bytes) -> None:
        """
        Raises:
            UnknownRecord: the record cannot be read, or contradicts earlier ones.
        """
        message = messages.read_message(value)
        self.records += 1
        match message:
            case int(kind):
                if kind in messages.NOT_ENFORCED:
                    self.not_enforced.add(messages.NOT_ENFORCED[kind])
            case messages.BeginTransaction():
                if self._undecided is not None:
                    raise UnknownRecord("a transaction begins within another one")
                self._undecided = []
            case messages.EndTransaction() | messages.AbortTransaction():
                undecided, self._undecided = self._undecided, None
                if undecided is None:
                    raise UnknownRecord("a transaction ends that has not begun")
                if isinstance(message, messages.EndTransaction):
                    for each in undecided:
                        self._take(each)
            case _ if self._undecided is not None:
                self._undecided.append(message)
            case _:
                self._take(message)

    def _take(self, message: Message) -> None:
        match message:
            case messages.Topic(name=name, topic_id=topic_id):
                self._add_topic(name, _present(topic_id))
            case messages.RemoveTopic(topic_id=topic_id):
                self._remove_topic(_present(topic_id))
            case messages.Partition():
                topic = self._topic(message.topic_id)
                topic.partitions[message.partition] = _partition(message)
            case messages.PartitionChange():
                self._change(message)
            case messages.ClearEligible(topic=name):
                self._clear_eligible(name)
            case messages.Config():
                self._configure(message)
            case messages.ProducerIds(next_producer_id=following):
                self.next_producer_id = max(self.next_producer_id, following)

    def _topic(self, topic_id: UUID | None) -> KafkaTopic:
        topic = self.topics.get(_present(topic_id))
        if topic is None:
            raise UnknownRecord(f"it is about topic {topic_id}, which there is not")
        return topic

    def _add_topic(self, name: str, topic_id: UUID) -> None:
        if name in self._names or topic_id in self.topics:
            raise UnknownRecord(f"there is a topic {name}, or one of its id, already")
        self.topics[topic_id] = KafkaTopic(name, topic_id)
        self._names[name] = topic_id

    def _remove_topic(self, topic_id: UUID) -> None:
        name = self._topic(topic_id).name
        del self.topics[topic_id], self._names[name]
        self.configs.pop((_TOPIC, name), None)
        self.deleted.add(topic_id)

    def _change(self, change: messages.PartitionChange) -> None:
        topic = self._topic(change.topic_id)
        before = topic.partitions.get(change.partition)
        if before is None:
            raise UnknownRecord(f"{topic.name} has no partition {change.partition}")
        topic.partitions[change.partition] = _changed(before, change)

    def _clear_eligible(self, name: str) -> None:
        for topic in self.topics.values():
            if name in ("", topic.name):
                for index, each in topic.partitions.items():
                    topic.partitions[index] = replace(each, eligible=(), last_known=())

    def _configure(self, config: messages.Config) -> None:
        owner = config.resource_type, config.resource_name
        if config.value is not None:
            self.configs.setdefault(owner, {})[config.key] = config.value
        elif owner in self.configs:
            self.configs[owner].pop(config.key, None)
            if not self.configs[owner]:
                del self.configs[owner]


def _present(topic_id: UUID | None) -> UUID:
    if topic_id is None:
        raise UnknownRecord("a topic without an id")
    return topic_id


def _partition(message: messages.Partition) -> KafkaPartition:
    return KafkaPartition(
        message.replicas,
        message.isr,
        message.leader,
        message.leader_epoch,
        message.adding,
        message.removing,
        directories=_directories(message.directories),
        eligible=message.eligible or (),
        last_known=message.last_known or (),
    )


def _changed(before: KafkaPartition, change: messages.PartitionChange) -> KafkaPartition:
    after = before
    if change.replicas is not None:
        after = replace(after, replicas=change.replicas, directories=_placed(before, change))
    if change.directories:
        after = replace(after, directories=_directories(change.directories))
    if change.leader != messages.SAME_LEADER:
        # A record that names a leader begins an epoch, even if it is the same leader.
        after = replace(after, leader=change.leader, leader_epoch=after.leader_epoch + 1)
    return replace(
        after,
        isr=_either(change.isr, before.isr),
        adding=_either(change.adding, before.adding),
        removing=_either(change.removing, before.removing),
        eligible=_either(change.eligible, before.eligible),
        last_known=_either(change.last_known, before.last_known),
    )


def _either(new: tuple[int, ...] | None, old: tuple[int, ...]) -> tuple[int, ...]:
    return old if new is None else new


def _placed(before: KafkaPartition, change: messages.PartitionChange) -> tuple[UUID, ...]:
    """The log dirs of replicas after a reassignment; replicas that stay keep theirs."""
    if not before.directories:
        return ()
    known = dict(zip(before.replicas, before.directories, strict=False))
    return tuple(known.get(each, _NO_ID) for each in change.replicas or ())


def _directories(ids: tuple[UUID | None, ...]) -> tuple[UUID, ...]:
    return tuple(each or _NO_ID for each in ids)


def led_by(partition: KafkaPartition) -> int:
    """The next leader: the current leader, or else the first complete replica."""
    complete = partition.complete
    if partition.leader in complete:
        return partition.leader
    return next((each for each in partition.replicas if each in complete), NO_LEADER)
