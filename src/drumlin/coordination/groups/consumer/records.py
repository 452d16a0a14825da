"""The records of consumer groups in `__consumer_offsets`, as Apache Kafka 4.3 writes them.

    key type 3      the group's epoch                       group
    key type 4      partitions subscribed to (4.0, dropped) group
    key type 5      the subscription of a member            group, member
    key type 6      the epoch of the target assignment      group
    key type 7      the target assignment of a member       group, member
    key type 8      the current assignment of a member      group, member
    key type 16     topics that a regular expression names  group, regular expression

Each value has one version, which is flexible; newer fields are tagged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final
from uuid import UUID

from drumlin.coordination.groups.consumer.member import (
    ClassicProtocols,
    MemberState,
    PartitionEpochs,
    Partitions,
    Progress,
    Subscription,
)
from drumlin.coordination.groups.every_kind.group_record import TopicPartitions, record_type
from drumlin.coordination.groups.every_kind.kind import GroupKind
from drumlin.coordination.groups.every_kind.target_epoch import TARGET_EPOCH
from drumlin.coordination.internal_records.record_schema import ByHand, ValueSchema
from drumlin.wire.schema.declaration import Tag, message
from drumlin.wire.schema.types import Int8, Int32, Int64


@dataclass(frozen=True, slots=True)
class EpochKey:
    group_id: str


@dataclass(frozen=True, slots=True)
class PartitionMetadataKey:
    group_id: str


@dataclass(frozen=True, slots=True)
class SubscriptionKey:
    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class TargetEpochKey:
    group_id: str


@dataclass(frozen=True, slots=True)
class TargetKey:
    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class ProgressKey:
    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class RegexKey:
    group_id: str
    regex: str


@dataclass(frozen=True, slots=True)
class Epoch:
    """A group's epoch. `metadata_hash`: a hash of the subscribed topics, specific to the writer."""

    epoch: Int32
    metadata_hash: Annotated[Int64, Tag(0)] = 0


@dataclass(frozen=True, slots=True)
class Target:
    partitions: Partitions


@dataclass(frozen=True, slots=True)
class ResolvedRegex:
    topics: frozenset[str]
    version: int
    """The version of the metadata, meaningful only to the broker that wrote it."""
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """Subscribed partitions, written by Kafka 4.0 and before. The record must be removed if
    present.
    """

    data: bytes


# -- declared fields -----------------------------------------------------------------------


@message
class _ClassicProtocol:
    name: str
    metadata: bytes


@message
class _ClassicMember:
    session_timeout_ms: Int32
    protocols: tuple[_ClassicProtocol, ...]


@message
class _SubscriptionFields:
    group_instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    topics: tuple[str, ...]
    regex: str | None
    rebalance_timeout_ms: Int32
    assignor: str | None
    # A null is written, too: without the tag, Kafka would treat the member as a classic one.
    classic: Annotated[_ClassicMember | None, Tag(0, is_always_written=True)] = None


@message
class _TargetFields:
    partitions: tuple[TopicPartitions, ...]


@message
class _TopicEpochs:
    topic_id: UUID
    partitions: tuple[Int32, ...]
    epochs: Annotated[tuple[Int32, ...], Tag(0, is_always_written=True)] = ()


@message
class _ProgressFields:
    epoch: Int32
    previous_epoch: Int32
    state: Int8
    assigned: tuple[_TopicEpochs, ...]
    revoking: tuple[_TopicEpochs, ...]


@message
class _RegexFields:
    topics: tuple[str, ...]
    version: Int64
    timestamp_ms: Int64


def _read_subscription(fields: _SubscriptionFields) -> Subscription:
    classic = None
    if fields.classic is not None:
        protocols = tuple((each.name, each.metadata) for each in fields.classic.protocols)
        classic = ClassicProtocols(fields.classic.session_timeout_ms, protocols)
    return Subscription(
        fields.group_instance_id,
        fields.rack_id,
        fields.client_id,
        fields.client_host,
        frozenset(fields.topics),
        fields.regex,
        fields.rebalance_timeout_ms,
        fields.assignor,
        classic,
    )


def _subscription_fields(value: Subscription) -> _SubscriptionFields:
    classic = None
    if value.classic is not None:
        protocols = tuple(
            _ClassicProtocol(name=name, metadata=metadata)
            for name, metadata in value.classic.protocols
        )
        classic = _ClassicMember(
            session_timeout_ms=value.classic.session_timeout_ms, protocols=protocols
        )
    return _SubscriptionFields(
        group_instance_id=value.group_instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        topics=tuple(sorted(value.topics)),
        regex=value.regex,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        assignor=value.assignor,
        classic=classic,
    )


def _read_target(fields: _TargetFields) -> Target:
    return Target({each.topic_id: frozenset(each.partitions) for each in fields.partitions})


def _target_fields(value: Target) -> _TargetFields:
    return _TargetFields(
        partitions=tuple(
            TopicPartitions(topic_id=topic_id, partitions=tuple(sorted(partitions)))
            for topic_id, partitions in value.partitions.items()
        )
    )


def _read_progress(fields: _ProgressFields) -> Progress:
    try:
        known = MemberState(fields.state)
    except ValueError:
        known = MemberState.UNKNOWN
    return Progress(
        fields.epoch,
        fields.previous_epoch,
        known,
        _partition_epochs(fields.assigned, fields.epoch),
        _partition_epochs(fields.revoking, fields.epoch),
    )


def _partition_epochs(topics: tuple[_TopicEpochs, ...], epoch: int) -> PartitionEpochs:
    """Partitions with their epochs. Records from before 4.3 have no such epochs; these get `epoch`,
    the member's epoch.
    """
    result: dict[UUID, Mapping[int, int]] = {}
    for topic in topics:
        epochs = topic.epochs
        if len(epochs) != len(topic.partitions):
            epochs = (max(epoch, 0),) * len(topic.partitions)
        result[topic.topic_id] = dict(zip(topic.partitions, epochs, strict=True))
    return result


def _progress_fields(value: Progress) -> _ProgressFields:
    assigned, revoking = (
        tuple(
            _TopicEpochs(topic_id=topic_id, partitions=tuple(each), epochs=tuple(each.values()))
            for topic_id, each in epochs.items()
        )
        for epochs in (value.assigned, value.revoking)
    )
    return _ProgressFields(
        epoch=value.epoch,
        previous_epoch=value.previous_epoch,
        state=value.state,
        assigned=assigned,
        revoking=revoking,
    )


def _read_regex(fields: _RegexFields) -> ResolvedRegex:
    return ResolvedRegex(frozenset(fields.topics), fields.version, fields.timestamp_ms)


def _regex_fields(value: ResolvedRegex) -> _RegexFields:
    topics = tuple(sorted(value.topics))
    return _RegexFields(topics=topics, version=value.version, timestamp_ms=value.timestamp_ms)


EPOCH: Final = ValueSchema[Epoch]("consumer group", Epoch)
SUBSCRIPTION: Final = ValueSchema(
    "consumer group member", _SubscriptionFields, _read_subscription, _subscription_fields
)
TARGET: Final = ValueSchema(
    "target assignment of a member", _TargetFields, _read_target, _target_fields
)
PROGRESS: Final = ValueSchema(
    "assignment of a member", _ProgressFields, _read_progress, _progress_fields
)
REGEX: Final = ValueSchema("regular expression", _RegexFields, _read_regex, _regex_fields)
_PARTITION_METADATA: Final = ByHand(lambda value: value.data, PartitionMetadata)

RECORD_TYPES: Final = (
    record_type(3, GroupKind.CONSUMER, EpochKey, EPOCH, ends_group=True),
    record_type(4, GroupKind.CONSUMER, PartitionMetadataKey, _PARTITION_METADATA),
    record_type(5, GroupKind.CONSUMER, SubscriptionKey, SUBSCRIPTION),
    record_type(6, GroupKind.CONSUMER, TargetEpochKey, TARGET_EPOCH),
    record_type(7, GroupKind.CONSUMER, TargetKey, TARGET),
    record_type(8, GroupKind.CONSUMER, ProgressKey, PROGRESS),
    record_type(16, GroupKind.CONSUMER, RegexKey, REGEX),
)
