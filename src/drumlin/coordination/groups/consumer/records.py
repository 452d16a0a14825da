"""The records of consumer groups in `__consumer_offsets`, as Apache Kafka 4.3 writes them.

    key type 3      the group's epoch                       group
    key type 4      partitions subscribed to (4.0, dropped) group
    key type 5      what a member says of itself            group, member
    key type 6      the epoch of the target assignment      group
    key type 7      the target assignment of a member       group, member
    key type 8      how far a member has followed           group, member
    key type 16     topics that a regular expression names  group, regular expression

There is one version of each value, a flexible one; later fields come as tags.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from drumlin.coordination.groups.consumer.member import (
    ClassicProtocols,
    MemberState,
    PartitionEpochs,
    Partitions,
    Progress,
    Subscription,
)
from drumlin.coordination.groups.every_kind.group_record import (
    MEMBER,
    TOPIC_PARTITIONS,
    record_type,
)
from drumlin.coordination.groups.every_kind.kind import GroupKind
from drumlin.coordination.groups.every_kind.target_epoch import TARGET_EPOCH
from drumlin.coordination.internal_records.record_schema import (
    BYTES,
    INT8,
    INT32,
    INT64,
    NULLABLE_STRING,
    STRING,
    Array,
    ByHand,
    Field,
    NullableStruct,
    Struct,
    ValueSchema,
)
from drumlin.coordination.internal_records.record_schema import UUID as TOPIC_ID

#: A topic's id, its partitions, and their epochs, of which there may be none.
_TopicEpochs = tuple[UUID, list[int], list[int]]


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
    """`metadata_hash`: of the topics subscribed to, by the writer's own rule."""

    epoch: int
    metadata_hash: int


@dataclass(frozen=True, slots=True)
class Target:
    partitions: Partitions


@dataclass(frozen=True, slots=True)
class ResolvedRegex:
    topics: frozenset[str]
    version: int
    """The version of the metadata; it has a meaning only for the broker that wrote it."""
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """Written by Kafka 4.0 and before. Only its presence matters: it is to be removed."""

    data: bytes


def _subscription(
    group_instance_id: str | None,
    rack_id: str | None,
    client_id: str,
    client_host: str,
    topics: list[str],
    regex: str | None,
    rebalance_timeout_ms: int,
    assignor: str | None,
    classic: tuple[int, list[tuple[str, bytes]]] | None,
) -> Subscription:
    return Subscription(
        group_instance_id,
        rack_id,
        client_id,
        client_host,
        frozenset(topics),
        regex,
        rebalance_timeout_ms,
        assignor,
        None if classic is None else ClassicProtocols(classic[0], tuple(classic[1])),
    )


def _parts_of_subscription(value: Subscription) -> tuple[Any, ...]:
    classic = value.classic
    return (
        value.group_instance_id,
        value.rack_id,
        value.client_id,
        value.client_host,
        sorted(value.topics),
        value.regex,
        value.rebalance_timeout_ms,
        value.assignor,
        None if classic is None else (classic.session_timeout_ms, classic.protocols),
    )


def _target(topics: list[tuple[UUID, list[int]]]) -> Target:
    return Target({topic_id: frozenset(partitions) for topic_id, partitions in topics})


def _parts_of_target(value: Target) -> tuple[Any, ...]:
    return ([(topic_id, sorted(each)) for topic_id, each in value.partitions.items()],)


def _progress(
    epoch: int,
    previous_epoch: int,
    state: int,
    assigned: list[_TopicEpochs],
    revoking: list[_TopicEpochs],
) -> Progress:
    try:
        known = MemberState(state)
    except ValueError:
        known = MemberState.UNKNOWN
    return Progress(
        epoch,
        previous_epoch,
        known,
        _partition_epochs(assigned, epoch),
        _partition_epochs(revoking, epoch),
    )


def _partition_epochs(topics: list[_TopicEpochs], epoch: int) -> PartitionEpochs:
    """`epoch` is the member's: before 4.3 partitions had none of their own."""
    result: dict[UUID, Mapping[int, int]] = {}
    for topic_id, partitions, epochs in topics:
        if len(epochs) != len(partitions):
            epochs = [max(epoch, 0)] * len(partitions)
        result[topic_id] = dict(zip(partitions, epochs, strict=True))
    return result


def _parts_of_progress(value: Progress) -> tuple[Any, ...]:
    assigned, revoking = (
        [(topic_id, list(each), list(each.values())) for topic_id, each in epochs.items()]
        for epochs in (value.assigned, value.revoking)
    )
    return value.epoch, value.previous_epoch, value.state, assigned, revoking


def _regex(topics: list[str], version: int, timestamp_ms: int) -> ResolvedRegex:
    return ResolvedRegex(frozenset(topics), version, timestamp_ms)


def _parts_of_regex(value: ResolvedRegex) -> tuple[Any, ...]:
    return sorted(value.topics), value.version, value.timestamp_ms


EPOCH: Final = ValueSchema(
    "consumer group",
    Epoch,
    Field("epoch", INT32),
    Field("metadata_hash", INT64, tag=0, default=0),
)
_CLASSIC_PROTOCOLS: Final = Struct(
    Field("session_timeout_ms", INT32),
    Field("protocols", Array(Struct(Field("name", STRING), Field("metadata", BYTES)))),
)
SUBSCRIPTION: Final = ValueSchema(
    "consumer group member",
    _subscription,
    Field("group_instance_id", NULLABLE_STRING),
    Field("rack_id", NULLABLE_STRING),
    Field("client_id", STRING),
    Field("client_host", STRING),
    Field("topics", Array(STRING)),
    Field("regex", NULLABLE_STRING),
    Field("rebalance_timeout_ms", INT32),
    Field("assignor", NULLABLE_STRING),
    # Null is written, too: without the tag Kafka would take the member for a classic one.
    Field("classic", NullableStruct(_CLASSIC_PROTOCOLS), tag=0, always_written=True),
    parts_of=_parts_of_subscription,
)
TARGET: Final = ValueSchema(
    "target assignment of a member",
    _target,
    Field("partitions", TOPIC_PARTITIONS),
    parts_of=_parts_of_target,
)
_TOPIC_EPOCHS: Final = Struct(
    Field("topic_id", TOPIC_ID),
    Field("partitions", Array(INT32)),
    Field("epochs", Array(INT32), tag=0, default=(), always_written=True),
)
PROGRESS: Final = ValueSchema(
    "assignment of a member",
    _progress,
    Field("epoch", INT32),
    Field("previous_epoch", INT32),
    Field("state", INT8),
    Field("assigned", Array(_TOPIC_EPOCHS)),
    Field("revoking", Array(_TOPIC_EPOCHS)),
    parts_of=_parts_of_progress,
)
REGEX: Final = ValueSchema(
    "regular expression",
    _regex,
    Field("topics", Array(STRING)),
    Field("version", INT64),
    Field("timestamp_ms", INT64),
    parts_of=_parts_of_regex,
)
_PARTITION_METADATA: Final = ByHand(lambda value: value.data, PartitionMetadata)


RECORD_TYPES: Final = (
    record_type(3, GroupKind.CONSUMER, EpochKey, EPOCH, ends_group=True),
    record_type(4, GroupKind.CONSUMER, PartitionMetadataKey, _PARTITION_METADATA),
    record_type(5, GroupKind.CONSUMER, SubscriptionKey, SUBSCRIPTION, MEMBER),
    record_type(6, GroupKind.CONSUMER, TargetEpochKey, TARGET_EPOCH),
    record_type(7, GroupKind.CONSUMER, TargetKey, TARGET, MEMBER),
    record_type(8, GroupKind.CONSUMER, ProgressKey, PROGRESS, MEMBER),
    record_type(16, GroupKind.CONSUMER, RegexKey, REGEX, Field("regex", STRING)),
)
