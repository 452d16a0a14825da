"""The record of a classic group: the group as its last completed rebalance left it.

    key type 2      the metadata of a group     group

Values are written as Kafka 4.3 writes them and read in every version there has been.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from drumlin.coordination.groups.every_kind.group_record import record_type
from drumlin.coordination.groups.every_kind.kind import GroupKind
from drumlin.coordination.internal_records.record_schema import (
    BYTES,
    INT32,
    INT64,
    NULLABLE_STRING,
    STRING,
    Array,
    Field,
    Struct,
    ValueSchema,
)

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


def _group(
    protocol_type: str,
    generation_id: int,
    protocol_name: str | None,
    leader_id: str | None,
    state_timestamp_ms: int,
    members: list[tuple[Any, ...]],
) -> GroupMetadata:
    return GroupMetadata(
        protocol_type or None,
        generation_id,
        protocol_name,
        leader_id,
        None if state_timestamp_ms == _NONE else state_timestamp_ms,
        tuple(_member(*member) for member in members),
    )


def _member(*fields: Any) -> MemberMetadata:
    member = MemberMetadata(*fields)
    if member.rebalance_timeout_ms != _NONE:
        return member
    # Before version 1 there was one timeout for both.
    return member._replace(rebalance_timeout_ms=member.session_timeout_ms)


def _parts_of(value: GroupMetadata) -> tuple[Any, ...]:
    return (
        value.protocol_type or "",
        value.generation_id,
        value.protocol_name,
        value.leader_id,
        _NONE if value.state_timestamp_ms is None else value.state_timestamp_ms,
        value.members,
    )


_MEMBER: Final = Struct(
    Field("member_id", STRING),
    Field("group_instance_id", NULLABLE_STRING, since=3),
    Field("client_id", STRING),
    Field("client_host", STRING),
    Field("rebalance_timeout_ms", INT32, since=1, default=_NONE),
    Field("session_timeout_ms", INT32),
    Field("subscription", BYTES),
    Field("assignment", BYTES),
)
GROUP_METADATA: Final = ValueSchema(
    "group metadata",
    _group,
    Field("protocol_type", STRING),
    Field("generation_id", INT32),
    Field("protocol_name", NULLABLE_STRING),
    Field("leader_id", NULLABLE_STRING),
    Field("state_timestamp_ms", INT64, since=2, default=_NONE),
    Field("members", Array(_MEMBER)),
    parts_of=_parts_of,
    written_version=3,
    last_version=4,
    first_flexible_version=4,
)

RECORD_TYPES: Final = (
    record_type(2, GroupKind.CLASSIC, GroupKey, GROUP_METADATA, ends_group=True),
)
