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

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

from drumlin.coordination.groups.kind import GroupKind
from drumlin.coordination.groups.record_type import RecordType, read_version
from drumlin.coordination.record_fields import FieldReader, FieldWriter, UnreadableRecord

_VERSION: Final = 0
_TIMESTAMP_TAG: Final = 0

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
class SharePartitionsKey:
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
    """Of the topics that are subscribed to: another one means another assignment."""


@dataclass(frozen=True, slots=True)
class ShareTarget:
    epoch: int
    timestamp_ms: int = 0


@dataclass(frozen=True, slots=True)
class ShareCurrent:
    """What a member has, and since which epoch."""

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
class SharePartitions:
    """Where the group has share state, or is about to have it, or to lose it."""

    initializing: Mapping[UUID, TopicPartitions] = field(default_factory=dict)
    initialized: Mapping[UUID, TopicPartitions] = field(default_factory=dict)
    deleting: Mapping[UUID, str] = field(default_factory=dict)


# -- keys ----------------------------------------------------------------------------------


def _type(
    key_type: int,
    key_class: Any,
    encode: Callable[[Any], bytes],
    decode: Callable[[bytes], Any],
    *,
    ends_group: bool = False,
) -> RecordType:
    if "member_id" in key_class.__dataclass_fields__:
        read, write = _member_key_reader(key_class), _write_member_key
    else:
        read, write = _group_key_reader(key_class), _write_group_key
    kind = GroupKind.SHARE
    return RecordType(key_type, kind, key_class, read, write, encode, decode, ends_group)


def _group_key_reader(key_class: Any) -> Callable[[FieldReader], Any]:
    return lambda reader: key_class(reader.string())


def _member_key_reader(key_class: Any) -> Callable[[FieldReader], Any]:
    return lambda reader: key_class(reader.string(), reader.string())


def _write_group_key(writer: FieldWriter, key: Any) -> None:
    writer.string(key.group_id)


def _write_member_key(writer: FieldWriter, key: Any) -> None:
    writer.string(key.group_id)
    writer.string(key.member_id)


# -- values --------------------------------------------------------------------------------


def _writer() -> FieldWriter:
    return FieldWriter(_VERSION, flexible=True)


def _reader(data: bytes, what: str) -> FieldReader:
    reader = FieldReader(data)
    read_version(reader, what, _VERSION)
    return reader


def _end(writer: FieldWriter) -> bytes:
    writer.tagged_fields({})
    return bytes(writer.data)


def encode_member(value: ShareMemberMetadata) -> bytes:
    writer = _writer()
    writer.string(value.rack_id)
    writer.string(value.client_id)
    writer.string(value.client_host)
    writer.array_length(len(value.topics))
    for name in value.topics:
        writer.string(name)
    return _end(writer)


def decode_member(data: bytes) -> ShareMemberMetadata:
    reader = _reader(data, "share group member")
    rack_id = reader.nullable_string()
    client_id = reader.string()
    client_host = reader.string()
    topics = tuple(reader.string() for _ in range(reader.array_length()))
    return ShareMemberMetadata(rack_id, client_id, client_host, tuple(sorted(topics)))


def encode_group(value: ShareGroupMetadata) -> bytes:
    writer = _writer()
    writer.int32(value.epoch)
    writer.int64(value.metadata_hash)
    return _end(writer)


def decode_group(data: bytes) -> ShareGroupMetadata:
    reader = _reader(data, "share group")
    return ShareGroupMetadata(reader.int32(), reader.int64())


def encode_target(value: ShareTarget) -> bytes:
    writer = _writer()
    writer.int32(value.epoch)
    tags = {}
    if value.timestamp_ms:
        tags[_TIMESTAMP_TAG] = value.timestamp_ms.to_bytes(8, "big", signed=True)
    writer.tagged_fields(tags)
    return bytes(writer.data)


def decode_target(data: bytes) -> ShareTarget:
    reader = _reader(data, "target assignment of a share group")
    epoch = reader.int32()
    timestamp = reader.tagged_fields().get(_TIMESTAMP_TAG, b"")
    if len(timestamp) not in (0, 8):
        raise UnreadableRecord(f"a timestamp of {len(timestamp)} bytes")
    return ShareTarget(epoch, int.from_bytes(timestamp, "big", signed=True))


def encode_assignment(value: Assignment) -> bytes:
    writer = _writer()
    _write_assignment(writer, value)
    return _end(writer)


def decode_assignment(data: bytes) -> Assignment:
    return _read_assignment(_reader(data, "target assignment of a member of a share group"))


def encode_current(value: ShareCurrent) -> bytes:
    writer = _writer()
    writer.int32(value.epoch)
    writer.int32(value.previous_epoch)
    writer.int8(value.state)
    _write_assignment(writer, value.assignment)
    return _end(writer)


def decode_current(data: bytes) -> ShareCurrent:
    reader = _reader(data, "assignment of a member of a share group")
    epoch, previous_epoch, state = reader.int32(), reader.int32(), reader.int8()
    return ShareCurrent(epoch, previous_epoch, _read_assignment(reader), state)


def _write_assignment(writer: FieldWriter, assignment: Assignment) -> None:
    writer.array_length(len(assignment))
    for topic_id, partitions in assignment.items():
        writer.uuid(topic_id)
        _write_numbers(writer, partitions)
        writer.tagged_fields({})


def _write_numbers(writer: FieldWriter, numbers: tuple[int, ...]) -> None:
    writer.array_length(len(numbers))
    for number in numbers:
        writer.int32(number)


def _read_assignment(reader: FieldReader) -> Assignment:
    assignment = {}
    for _ in range(reader.array_length()):
        topic_id = reader.uuid()
        assignment[topic_id] = tuple(sorted(_read_numbers(reader)))
        reader.tagged_fields()
    return assignment


def _read_numbers(reader: FieldReader) -> list[int]:
    return [reader.int32() for _ in range(reader.array_length())]


def encode_partitions(value: SharePartitions) -> bytes:
    writer = _writer()
    for topics in (value.initializing, value.initialized):
        writer.array_length(len(topics))
        for topic_id, topic in topics.items():
            writer.uuid(topic_id)
            writer.string(topic.name)
            _write_numbers(writer, tuple(sorted(topic.partitions)))
            writer.tagged_fields({})
    writer.array_length(len(value.deleting))
    for topic_id, name in value.deleting.items():
        writer.uuid(topic_id)
        writer.string(name)
        writer.tagged_fields({})
    return _end(writer)


def decode_partitions(data: bytes) -> SharePartitions:
    reader = _reader(data, "partitions of a share group")
    initializing = _read_topics(reader)
    initialized = _read_topics(reader)
    deleting = {}
    for _ in range(reader.array_length()):
        topic_id = reader.uuid()
        deleting[topic_id] = reader.string()
        reader.tagged_fields()
    return SharePartitions(initializing, initialized, deleting)


def _read_topics(reader: FieldReader) -> dict[UUID, TopicPartitions]:
    topics = {}
    for _ in range(reader.array_length()):
        topic_id = reader.uuid()
        topics[topic_id] = TopicPartitions(reader.string(), frozenset(_read_numbers(reader)))
        reader.tagged_fields()
    return topics


RECORD_TYPES: Final = (
    _type(10, ShareMemberKey, encode_member, decode_member),
    _type(11, ShareGroupKey, encode_group, decode_group, ends_group=True),
    _type(12, ShareTargetKey, encode_target, decode_target),
    _type(13, ShareTargetMemberKey, encode_assignment, decode_assignment),
    _type(14, ShareCurrentKey, encode_current, decode_current),
    _type(15, SharePartitionsKey, encode_partitions, decode_partitions),
)
