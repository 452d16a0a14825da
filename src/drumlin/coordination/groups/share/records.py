"""The records of share groups.

    key type 10     the metadata of a member                    group, member
             11     the group's epoch                           group
             12     the epoch of the target assignment          group
             13     the target assignment of a member           group, member
             14     the current assignment of a member          group, member
             15     partitions whose share state is kept        group

Values are written and read as by Kafka 4.3. A tombstone of type 11 ends the group.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final
from uuid import UUID

from drumlin.coordination.groups.every_kind import group_record
from drumlin.coordination.groups.every_kind.group_record import record_type
from drumlin.coordination.groups.every_kind.kind import GroupKind
from drumlin.coordination.groups.every_kind.target_epoch import TARGET_EPOCH
from drumlin.coordination.internal_records.record_schema import ValueSchema
from drumlin.wire.schema.declaration import message
from drumlin.wire.schema.types import Int8, Int32, Int64

#: Topic id -> partitions, ascending.
Assignment = Mapping[UUID, tuple[int, ...]]
NOTHING: Final[Assignment] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ShareMemberKey:
    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class ShareGroupKey:
    group_id: str


@dataclass(frozen=True, slots=True)
class ShareTargetKey:
    group_id: str


@dataclass(frozen=True, slots=True)
class ShareTargetMemberKey:
    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class ShareCurrentKey:
    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class StatePartitionMetadataKey:
    group_id: str


@dataclass(frozen=True, slots=True)
class ShareMemberMetadata:
    """The metadata of a member, from its heartbeats."""

    rack_id: str | None
    client_id: str
    client_host: str
    topics: tuple[str, ...]
    """Names, ascending."""


@dataclass(frozen=True, slots=True)
class ShareGroupMetadata:
    epoch: Int32
    metadata_hash: Int64
    """A hash of the subscribed topics; if it changes, a new assignment is due."""


@dataclass(frozen=True, slots=True)
class ShareCurrent:
    """A member's assignment, and the epoch since which the member has it."""

    epoch: int
    previous_epoch: int
    assignment: Assignment = field(default_factory=dict)
    state: int = 0
    """Members of a share group have only one state, "stable"."""


@dataclass(frozen=True, slots=True)
class TopicPartitions:
    name: str
    partitions: frozenset[int]


@dataclass(frozen=True, slots=True)
class StatePartitionMetadata:
    """The partitions with share state of the group, and those being initialized or deleted."""

    initializing: Mapping[UUID, TopicPartitions] = field(default_factory=dict)
    initialized: Mapping[UUID, TopicPartitions] = field(default_factory=dict)
    deleting: Mapping[UUID, str] = field(default_factory=dict)


# -- declared fields -----------------------------------------------------------------------


@message
class _AssignmentFields:
    topics: tuple[group_record.TopicPartitions, ...]


@message
class _CurrentFields:
    epoch: Int32
    previous_epoch: Int32
    state: Int8
    topics: tuple[group_record.TopicPartitions, ...]


@message
class _NamedTopic:
    topic_id: UUID
    name: str


@message
class _NamedPartitions:
    topic_id: UUID
    name: str
    partitions: tuple[Int32, ...]


@message
class _StatePartitionFields:
    initializing: tuple[_NamedPartitions, ...]
    initialized: tuple[_NamedPartitions, ...]
    deleting: tuple[_NamedTopic, ...]


def _read_member(fields: ShareMemberMetadata) -> ShareMemberMetadata:
    return replace(fields, topics=tuple(sorted(fields.topics)))


def _read_topics(topics: tuple[group_record.TopicPartitions, ...]) -> Assignment:
    return {each.topic_id: tuple(sorted(each.partitions)) for each in topics}


def _topics(value: Assignment) -> tuple[group_record.TopicPartitions, ...]:
    return tuple(
        group_record.TopicPartitions(topic_id=topic_id, partitions=tuple(sorted(partitions)))
        for topic_id, partitions in value.items()
    )


def _read_assignment(fields: _AssignmentFields) -> Assignment:
    return _read_topics(fields.topics)


def _assignment_fields(value: Assignment) -> _AssignmentFields:
    return _AssignmentFields(topics=_topics(value))


def _read_current(fields: _CurrentFields) -> ShareCurrent:
    assignment = _read_topics(fields.topics)
    return ShareCurrent(fields.epoch, fields.previous_epoch, assignment, fields.state)


def _current_fields(value: ShareCurrent) -> _CurrentFields:
    return _CurrentFields(
        epoch=value.epoch,
        previous_epoch=value.previous_epoch,
        state=value.state,
        topics=_topics(value.assignment),
    )


def _read_state_partitions(fields: _StatePartitionFields) -> StatePartitionMetadata:
    return StatePartitionMetadata(
        _by_id(fields.initializing),
        _by_id(fields.initialized),
        {each.topic_id: each.name for each in fields.deleting},
    )


def _by_id(topics: tuple[_NamedPartitions, ...]) -> dict[UUID, TopicPartitions]:
    return {
        each.topic_id: TopicPartitions(each.name, frozenset(each.partitions)) for each in topics
    }


def _state_partition_fields(value: StatePartitionMetadata) -> _StatePartitionFields:
    initializing, initialized = (
        tuple(
            _NamedPartitions(
                topic_id=topic_id, name=topic.name, partitions=tuple(sorted(topic.partitions))
            )
            for topic_id, topic in topics.items()
        )
        for topics in (value.initializing, value.initialized)
    )
    deleting = tuple(
        _NamedTopic(topic_id=topic_id, name=name) for topic_id, name in value.deleting.items()
    )
    return _StatePartitionFields(
        initializing=initializing, initialized=initialized, deleting=deleting
    )


MEMBER_METADATA: Final = ValueSchema("share group member", ShareMemberMetadata, _read_member)
GROUP_METADATA: Final = ValueSchema[ShareGroupMetadata]("share group", ShareGroupMetadata)
ASSIGNMENT: Final = ValueSchema(
    "target assignment of a member of a share group",
    _AssignmentFields,
    _read_assignment,
    _assignment_fields,
)
CURRENT: Final = ValueSchema(
    "assignment of a member of a share group", _CurrentFields, _read_current, _current_fields
)
STATE_PARTITIONS: Final = ValueSchema(
    "partitions of a share group",
    _StatePartitionFields,
    _read_state_partitions,
    _state_partition_fields,
)

RECORD_TYPES: Final = (
    record_type(10, GroupKind.SHARE, ShareMemberKey, MEMBER_METADATA),
    record_type(11, GroupKind.SHARE, ShareGroupKey, GROUP_METADATA, ends_group=True),
    record_type(12, GroupKind.SHARE, ShareTargetKey, TARGET_EPOCH),
    record_type(13, GroupKind.SHARE, ShareTargetMemberKey, ASSIGNMENT),
    record_type(14, GroupKind.SHARE, ShareCurrentKey, CURRENT),
    record_type(15, GroupKind.SHARE, StatePartitionMetadataKey, STATE_PARTITIONS),
)
