"""The record of a classic group: the group as its last completed rebalance left it.

    key type 2      the metadata of a group     group

Values are written as Kafka 4.3 writes them and read in every version there has been.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from drumlin.coordination.groups.kind import GroupKind
from drumlin.coordination.groups.record_type import RecordType, read_version
from drumlin.coordination.record_fields import FieldReader, FieldWriter

_KEY_TYPE: Final = 2
_VERSION_WITH_REBALANCE_TIMEOUT: Final = 1
_VERSION_WITH_STATE_TIMESTAMP: Final = 2
_VERSION_WITH_INSTANCE_ID: Final = 3
_FIRST_FLEXIBLE_VERSION: Final = 4
_LAST_VERSION: Final = 4

_NONE: Final = -1


@dataclass(frozen=True, slots=True)
class GroupKey:
    """The group that the metadata belongs to."""

    group_id: str


class MemberMetadata(NamedTuple):
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


def encode_group(value: GroupMetadata) -> bytes:
    writer = FieldWriter(_VERSION_WITH_INSTANCE_ID)
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
    version = read_version(reader, "group metadata", _LAST_VERSION, _FIRST_FLEXIBLE_VERSION)
    protocol_type = reader.string()
    generation_id = reader.int32()
    protocol_name = reader.nullable_string()
    leader_id = reader.nullable_string()
    has_timestamp = version >= _VERSION_WITH_STATE_TIMESTAMP
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
    has_instance_id = version >= _VERSION_WITH_INSTANCE_ID
    group_instance_id = reader.nullable_string() if has_instance_id else None
    client_id = reader.string()
    client_host = reader.string()
    has_timeout = version >= _VERSION_WITH_REBALANCE_TIMEOUT
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


RECORD_TYPES: Final = (
    RecordType(
        key_type=_KEY_TYPE,
        kind=GroupKind.CLASSIC,
        key_class=GroupKey,
        read_key=lambda reader: GroupKey(reader.string()),
        write_key=lambda writer, key: writer.string(key.group_id),
        encode_value=encode_group,
        decode_value=decode_group,
        ends_group=True,
    ),
)
