"""What `__consumer_offsets` holds: committed offsets and group metadata, as Apache Kafka has them.

    key type 0, 1   a committed offset      group, topic, partition
    key type 2      the metadata of a group group

Values are written as Kafka 4.3 writes them and read in every version there has been. A null
value is a tombstone. Keys of other types belong to protocols that are not served here: they
decode to None and stay in the log untouched.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from drumlin.coordination.record_fields import FieldReader, FieldWriter, UnreadableRecord

_OFFSET_KEY_TYPES: Final = (0, 1)
_OFFSET_KEY_TYPE: Final = 1
_GROUP_KEY_TYPE: Final = 2

_OFFSET_VERSION_WITH_EXPIRY: Final = 1
_OFFSET_VERSION_WITH_LEADER_EPOCH: Final = 3
_OFFSET_VERSION_WITH_TOPIC_ID: Final = 4
_TOPIC_ID_TAG: Final = 0
_GROUP_VERSION_WITH_REBALANCE_TIMEOUT: Final = 1
_GROUP_VERSION_WITH_STATE_TIMESTAMP: Final = 2
_GROUP_VERSION_WITH_INSTANCE_ID: Final = 3
_FIRST_FLEXIBLE_VERSION: Final = 4
_LAST_VERSION: Final = 4

NO_LEADER_EPOCH: Final = -1
_NONE: Final = -1


@dataclass(frozen=True, slots=True)
class OffsetKey:
    """Whose offset, and where."""

    group_id: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class GroupKey:
    """Which group the metadata is of."""

    group_id: str


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """One committed position of a group."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int | None = None
    """Only clients of the oldest versions set it; then retention is not asked."""
    topic_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class MemberMetadata:
    """A member as the last completed rebalance left it."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """A group as the last completed rebalance left it."""

    protocol_type: str | None
    generation_id: int
    protocol_name: str | None
    leader_id: str | None
    state_timestamp_ms: int | None
    members: tuple[MemberMetadata, ...]


def encode_offset_key(key: OffsetKey) -> bytes:
    writer = FieldWriter(_OFFSET_KEY_TYPE)
    writer.string(key.group_id)
    writer.string(key.topic)
    writer.int32(key.partition)
    return bytes(writer.data)


def encode_group_key(group_id: str) -> bytes:
    writer = FieldWriter(_GROUP_KEY_TYPE)
    writer.string(group_id)
    return bytes(writer.data)


def decode_key(data: bytes) -> OffsetKey | GroupKey | None:
    """The key, or None if it is of a type that is not served here.

    Raises:
        UnreadableRecord: the bytes are no key at all.
    """
    reader = FieldReader(data)
    key_type = reader.int16()
    if key_type in _OFFSET_KEY_TYPES:
        return OffsetKey(reader.string(), reader.string(), reader.int32())
    if key_type == _GROUP_KEY_TYPE:
        return GroupKey(reader.string())
    return None


def encode_offset(value: CommittedOffset) -> bytes:
    # An expiry of its own exists in version 1 alone, so it wins over the topic id.
    if value.expire_timestamp_ms is not None:
        version = _OFFSET_VERSION_WITH_EXPIRY
    elif value.topic_id is not None:
        version = _OFFSET_VERSION_WITH_TOPIC_ID
    else:
        version = _OFFSET_VERSION_WITH_LEADER_EPOCH
    flexible = version >= _FIRST_FLEXIBLE_VERSION
    writer = FieldWriter(version, flexible=flexible)
    writer.int64(value.offset)
    if version >= _OFFSET_VERSION_WITH_LEADER_EPOCH:
        writer.int32(value.leader_epoch)
    writer.string(value.metadata)
    writer.int64(value.commit_timestamp_ms)
    if value.expire_timestamp_ms is not None:
        writer.int64(value.expire_timestamp_ms)
    if flexible and value.topic_id is not None:
        writer.tagged_fields({_TOPIC_ID_TAG: value.topic_id.bytes})
    return bytes(writer.data)


def decode_offset(data: bytes) -> CommittedOffset:
    """
    Raises:
        UnreadableRecord: a version or bytes that are not known here.
    """
    reader = FieldReader(data)
    version = _read_version(reader, "committed offset")
    offset = reader.int64()
    has_epoch = version >= _OFFSET_VERSION_WITH_LEADER_EPOCH
    leader_epoch = reader.int32() if has_epoch else NO_LEADER_EPOCH
    metadata = reader.string()
    commit_timestamp_ms = reader.int64()
    expire_timestamp_ms = reader.int64() if version == _OFFSET_VERSION_WITH_EXPIRY else _NONE
    topic_id = reader.tagged_fields().get(_TOPIC_ID_TAG)
    if topic_id is not None and len(topic_id) != 16:
        raise UnreadableRecord(f"a topic id of {len(topic_id)} bytes")
    return CommittedOffset(
        offset,
        leader_epoch,
        metadata,
        commit_timestamp_ms,
        None if expire_timestamp_ms == _NONE else expire_timestamp_ms,
        UUID(bytes=topic_id) if topic_id and any(topic_id) else None,
    )


def encode_group(value: GroupMetadata) -> bytes:
    writer = FieldWriter(_GROUP_VERSION_WITH_INSTANCE_ID)
    writer.string(value.protocol_type or "")
    writer.int32(value.generation_id)
    writer.string(value.protocol_name)
    writer.string(value.leader_id)
    writer.int64(_NONE if value.state_timestamp_ms is None else value.state_timestamp_ms)
    writer.int32(len(value.members))
    for member in value.members:
        writer.string(member.member_id)
        writer.string(member.group_instance_id)
        writer.string(member.client_id)
        writer.string(member.client_host)
        writer.int32(member.rebalance_timeout_ms)
        writer.int32(member.session_timeout_ms)
        writer.bytes_field(member.subscription)
        writer.bytes_field(member.assignment)
    return bytes(writer.data)


def decode_group(data: bytes) -> GroupMetadata:
    """
    Raises:
        UnreadableRecord: a version or bytes that are not known here.
    """
    reader = FieldReader(data)
    version = _read_version(reader, "group metadata")
    protocol_type = reader.string()
    generation_id = reader.int32()
    protocol_name = reader.nullable_string()
    leader_id = reader.nullable_string()
    has_timestamp = version >= _GROUP_VERSION_WITH_STATE_TIMESTAMP
    state_timestamp_ms = reader.int64() if has_timestamp else _NONE
    members = tuple(_decode_member(reader, version) for _ in range(reader.array_length()))
    reader.tagged_fields()
    return GroupMetadata(
        protocol_type or None,
        generation_id,
        protocol_name,
        leader_id,
        None if state_timestamp_ms == _NONE else state_timestamp_ms,
        members,
    )


def _decode_member(reader: FieldReader, version: int) -> MemberMetadata:
    member_id = reader.string()
    has_instance_id = version >= _GROUP_VERSION_WITH_INSTANCE_ID
    group_instance_id = reader.nullable_string() if has_instance_id else None
    client_id = reader.string()
    client_host = reader.string()
    has_timeout = version >= _GROUP_VERSION_WITH_REBALANCE_TIMEOUT
    rebalance_timeout_ms = reader.int32() if has_timeout else _NONE
    session_timeout_ms = reader.int32()
    subscription = reader.bytes_field()
    assignment = reader.bytes_field()
    reader.tagged_fields()
    return MemberMetadata(
        member_id,
        group_instance_id,
        client_id,
        client_host,
        # Before version 1 there was one timeout for both.
        session_timeout_ms if rebalance_timeout_ms == _NONE else rebalance_timeout_ms,
        session_timeout_ms,
        subscription,
        assignment,
    )


def _read_version(reader: FieldReader, what: str) -> int:
    version = reader.int16()
    if not 0 <= version <= _LAST_VERSION:
        raise UnreadableRecord(f"{what} of version {version}")
    reader.flexible = version >= _FIRST_FLEXIBLE_VERSION
    return version
