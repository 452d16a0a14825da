"""The record of a classic group: the group's state after the last completed rebalance.

    key type 2      the metadata of a group     group

Values are written as Kafka 4.3 writes them, and all versions are read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, NamedTuple

from drumlin.coordination.groups.every_kind.group_record import record_type
from drumlin.coordination.groups.every_kind.kind import GroupKind
from drumlin.coordination.internal_records.record_schema import ValueSchema
from drumlin.wire.schema.declaration import Versions, message
from drumlin.wire.schema.types import Int32, Int64

_NONE: Final = -1


@dataclass(frozen=True, slots=True)
class GroupKey:
    """The key of a group's metadata."""

    group_id: str


class MemberMetadata(NamedTuple):
    """A member after the last completed rebalance."""

    member_id: str
    group_instance_id: Annotated[str | None, Versions(3)]
    client_id: str
    client_host: str
    rebalance_timeout_ms: Annotated[Int32, Versions(1, otherwise=_NONE)]
    session_timeout_ms: Int32
    subscription: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """A group after the last completed rebalance."""

    protocol_type: str | None
    generation_id: int
    protocol_name: str | None
    leader_id: str | None
    state_timestamp_ms: int | None
    members: tuple[MemberMetadata, ...]


# -- declared fields -----------------------------------------------------------------------


@message
class _GroupFields:
    protocol_type: str
    generation_id: Int32
    protocol_name: str | None
    leader_id: str | None
    state_timestamp_ms: Annotated[Int64, Versions(2)] = _NONE
    members: tuple[MemberMetadata, ...]


def _read(fields: _GroupFields) -> GroupMetadata:
    return GroupMetadata(
        fields.protocol_type or None,
        fields.generation_id,
        fields.protocol_name,
        fields.leader_id,
        None if fields.state_timestamp_ms == _NONE else fields.state_timestamp_ms,
        tuple(map(_read_member, fields.members)),
    )


def _read_member(member: MemberMetadata) -> MemberMetadata:
    if member.rebalance_timeout_ms != _NONE:
        return member
    # Before version 1 the session timeout was the rebalance timeout, too.
    return member._replace(rebalance_timeout_ms=member.session_timeout_ms)


def _fields_of(value: GroupMetadata) -> _GroupFields:
    return _GroupFields(
        protocol_type=value.protocol_type or "",
        generation_id=value.generation_id,
        protocol_name=value.protocol_name,
        leader_id=value.leader_id,
        state_timestamp_ms=(
            _NONE if value.state_timestamp_ms is None else value.state_timestamp_ms
        ),
        members=value.members,
    )


GROUP_METADATA: Final = ValueSchema(
    "group metadata",
    _GroupFields,
    _read,
    _fields_of,
    written_version=3,
    last_version=4,
    first_flexible_version=4,
)

RECORD_TYPES: Final = (
    record_type(2, GroupKind.CLASSIC, GroupKey, GROUP_METADATA, ends_group=True),
)
