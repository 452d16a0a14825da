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
from typing import Final
from uuid import UUID

from drumlin.coordination.groups.kind import GroupKind
from drumlin.coordination.groups.record_type import type_of_group, type_of_part
from drumlin.coordination.groups.record_values import (
    decode_target_epoch,
    encode_target_epoch,
    ended,
    read_topic_partitions,
    value_reader,
    value_writer,
    write_topic_partitions,
)
from drumlin.coordination.record_fields import FieldReader

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
    """Of the topics that are subscribed to: another hash means another assignment."""


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


def encode_member(value: ShareMemberMetadata) -> bytes:
    writer = value_writer()
    writer.string(value.rack_id)
    writer.string(value.client_id)
    writer.string(value.client_host)
    writer.strings(value.topics)
    return ended(writer)


def decode_member(data: bytes) -> ShareMemberMetadata:
    reader = value_reader(data, "share group member")
    rack_id = reader.nullable_string()
    client_id = reader.string()
    client_host = reader.string()
    return ShareMemberMetadata(rack_id, client_id, client_host, tuple(sorted(reader.strings())))


def encode_group(value: ShareGroupMetadata) -> bytes:
    writer = value_writer()
    writer.int32(value.epoch)
    writer.int64(value.metadata_hash)
    return ended(writer)


def decode_group(data: bytes) -> ShareGroupMetadata:
    reader = value_reader(data, "share group")
    return ShareGroupMetadata(reader.int32(), reader.int64())


def encode_assignment(value: Assignment) -> bytes:
    writer = value_writer()
    write_topic_partitions(writer, value)
    return ended(writer)


def decode_assignment(data: bytes) -> Assignment:
    return _read_assignment(value_reader(data, "target assignment of a member of a share group"))


def encode_current(value: ShareCurrent) -> bytes:
    writer = value_writer()
    writer.int32(value.epoch)
    writer.int32(value.previous_epoch)
    writer.int8(value.state)
    write_topic_partitions(writer, value.assignment)
    return ended(writer)


def decode_current(data: bytes) -> ShareCurrent:
    reader = value_reader(data, "assignment of a member of a share group")
    epoch, previous_epoch, state = reader.int32(), reader.int32(), reader.int8()
    return ShareCurrent(epoch, previous_epoch, _read_assignment(reader), state)


def _read_assignment(reader: FieldReader) -> Assignment:
    topics = read_topic_partitions(reader)
    return {topic_id: tuple(sorted(partitions)) for topic_id, partitions in topics.items()}


def encode_partitions(value: StatePartitionMetadata) -> bytes:
    writer = value_writer()
    for topics in (value.initializing, value.initialized):
        writer.array_length(len(topics))
        for topic_id, topic in topics.items():
            writer.uuid(topic_id)
            writer.string(topic.name)
            writer.int32s(sorted(topic.partitions))
            writer.tagged_fields({})
    writer.array_length(len(value.deleting))
    for topic_id, name in value.deleting.items():
        writer.uuid(topic_id)
        writer.string(name)
        writer.tagged_fields({})
    return ended(writer)


def decode_partitions(data: bytes) -> StatePartitionMetadata:
    reader = value_reader(data, "partitions of a share group")
    initializing = _read_topics(reader)
    initialized = _read_topics(reader)
    deleting = {}
    for _ in range(reader.array_length()):
        topic_id = reader.uuid()
        deleting[topic_id] = reader.string()
        reader.tagged_fields()
    return StatePartitionMetadata(initializing, initialized, deleting)


def _read_topics(reader: FieldReader) -> dict[UUID, TopicPartitions]:
    topics = {}
    for _ in range(reader.array_length()):
        topic_id = reader.uuid()
        topics[topic_id] = TopicPartitions(reader.string(), frozenset(reader.int32s()))
        reader.tagged_fields()
    return topics


RECORD_TYPES: Final = (
    type_of_part(10, GroupKind.SHARE, ShareMemberKey, encode_member, decode_member),
    type_of_group(11, GroupKind.SHARE, ShareGroupKey, encode_group, decode_group, ends_group=True),
    type_of_group(12, GroupKind.SHARE, ShareTargetKey, encode_target_epoch, decode_target_epoch),
    type_of_part(13, GroupKind.SHARE, ShareTargetMemberKey, encode_assignment, decode_assignment),
    type_of_part(14, GroupKind.SHARE, ShareCurrentKey, encode_current, decode_current),
    type_of_group(
        15, GroupKind.SHARE, StatePartitionMetadataKey, encode_partitions, decode_partitions
    ),
)
