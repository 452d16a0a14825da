"""The records of share groups.

    key type 10     a member as it describes itself             group, member
             11     the group's epoch                           group
             12     the epoch of the target assignment          group
             13     what a member is to have                    group, member
             14     what a member has                           group, member
             15     partitions whose share state is kept        group

Values are written and read as Kafka 4.3 does. A tombstone of type 11 ends the group.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

from drumlin.coordination.groups.every_kind.group_record import (
    MEMBER,
    TOPIC_PARTITIONS,
    record_type,
)
from drumlin.coordination.groups.every_kind.kind import GroupKind
from drumlin.coordination.groups.every_kind.target_epoch import TARGET_EPOCH
from drumlin.coordination.internal_records.record_schema import (
    INT8,
    INT32,
    INT64,
    NULLABLE_STRING,
    STRING,
    Array,
    Field,
    Struct,
    ValueSchema,
)
from drumlin.coordination.internal_records.record_schema import UUID as TOPIC_ID

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
    """A member as it describes itself."""

    rack_id: str | None
    client_id: str
    client_host: str
    topics: tuple[str, ...]
    """Names, ascending."""


@dataclass(frozen=True, slots=True)
class ShareGroupMetadata:
    epoch: int
    metadata_hash: int
    """A hash of the subscribed topics; if it changes, the group is assigned again."""


@dataclass(frozen=True, slots=True)
class ShareCurrent:
    """A member's assignment, and the epoch since which it has it."""

    epoch: int
    previous_epoch: int
    assignment: Assignment = field(default_factory=dict)
    state: int = 0
    """A share group's members have one state only, "stable"."""


@dataclass(frozen=True, slots=True)
class TopicPartitions:
    name: str
    partitions: frozenset[int]


@dataclass(frozen=True, slots=True)
class StatePartitionMetadata:
    """The partitions where the group has share state, is about to have it, or to lose it."""

    initializing: Mapping[UUID, TopicPartitions] = field(default_factory=dict)
    initialized: Mapping[UUID, TopicPartitions] = field(default_factory=dict)
    deleting: Mapping[UUID, str] = field(default_factory=dict)


def _member(
    rack_id: str | None, client_id: str, client_host: str, topics: list[str]
) -> ShareMemberMetadata:
    return ShareMemberMetadata(rack_id, client_id, client_host, tuple(sorted(topics)))


def _assignment(topics: list[tuple[UUID, list[int]]]) -> Assignment:
    return {topic_id: tuple(sorted(partitions)) for topic_id, partitions in topics}


def _parts_of_assignment(value: Assignment) -> tuple[Any, ...]:
    return ([(topic_id, sorted(partitions)) for topic_id, partitions in value.items()],)


def _current(
    epoch: int, previous_epoch: int, state: int, topics: list[tuple[UUID, list[int]]]
) -> ShareCurrent:
    return ShareCurrent(epoch, previous_epoch, _assignment(topics), state)


def _parts_of_current(value: ShareCurrent) -> tuple[Any, ...]:
    assignment = _parts_of_assignment(value.assignment)
    return value.epoch, value.previous_epoch, value.state, *assignment


def _state_partitions(
    initializing: list[tuple[UUID, str, list[int]]],
    initialized: list[tuple[UUID, str, list[int]]],
    deleting: list[tuple[UUID, str]],
) -> StatePartitionMetadata:
    return StatePartitionMetadata(_by_id(initializing), _by_id(initialized), dict(deleting))


def _by_id(topics: list[tuple[UUID, str, list[int]]]) -> dict[UUID, TopicPartitions]:
    return {each[0]: TopicPartitions(each[1], frozenset(each[2])) for each in topics}


def _parts_of_state_partitions(value: StatePartitionMetadata) -> tuple[Any, ...]:
    initializing, initialized = (
        [(topic_id, topic.name, sorted(topic.partitions)) for topic_id, topic in topics.items()]
        for topics in (value.initializing, value.initialized)
    )
    return initializing, initialized, list(value.deleting.items())


MEMBER_METADATA: Final = ValueSchema(
    "share group member",
    _member,
    Field("rack_id", NULLABLE_STRING),
    Field("client_id", STRING),
    Field("client_host", STRING),
    Field("topics", Array(STRING)),
)
GROUP_METADATA: Final = ValueSchema(
    "share group",
    ShareGroupMetadata,
    Field("epoch", INT32),
    Field("metadata_hash", INT64),
)
ASSIGNMENT: Final = ValueSchema(
    "target assignment of a member of a share group",
    _assignment,
    Field("topics", TOPIC_PARTITIONS),
    parts_of=_parts_of_assignment,
)
CURRENT: Final = ValueSchema(
    "assignment of a member of a share group",
    _current,
    Field("epoch", INT32),
    Field("previous_epoch", INT32),
    Field("state", INT8),
    Field("topics", TOPIC_PARTITIONS),
    parts_of=_parts_of_current,
)
_NAMED_TOPIC: Final = (Field("topic_id", TOPIC_ID), Field("name", STRING))
_WITH_PARTITIONS: Final = Struct(*_NAMED_TOPIC, Field("partitions", Array(INT32)))
STATE_PARTITIONS: Final = ValueSchema(
    "partitions of a share group",
    _state_partitions,
    Field("initializing", Array(_WITH_PARTITIONS)),
    Field("initialized", Array(_WITH_PARTITIONS)),
    Field("deleting", Array(Struct(*_NAMED_TOPIC))),
    parts_of=_parts_of_state_partitions,
)

RECORD_TYPES: Final = (
    record_type(10, GroupKind.SHARE, ShareMemberKey, MEMBER_METADATA, MEMBER),
    record_type(11, GroupKind.SHARE, ShareGroupKey, GROUP_METADATA, ends_group=True),
    record_type(12, GroupKind.SHARE, ShareTargetKey, TARGET_EPOCH),
    record_type(13, GroupKind.SHARE, ShareTargetMemberKey, ASSIGNMENT, MEMBER),
    record_type(14, GroupKind.SHARE, ShareCurrentKey, CURRENT, MEMBER),
    record_type(15, GroupKind.SHARE, StatePartitionMetadataKey, STATE_PARTITIONS),
)
