"""How a kind of group declares which records of `__consumer_offsets` are its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Protocol

from drumlin.coordination.groups.every_kind.kind import GroupKind
from drumlin.coordination.internal_records.record_schema import (
    INT32,
    STRING,
    UUID,
    Array,
    ByHand,
    Field,
    KeySchema,
    Struct,
    ValueSchema,
)


class RecordKey(Protocol):
    """A key of the topic. Each type of record has a hashable class of its own for its keys."""

    @property
    def group_id(self) -> str: ...


#: A record of the topic, key and value; without a value it is a tombstone.
GroupRecord = tuple[RecordKey, Any | None]

#: What begins the keys of all types.
GROUP: Final = Field("group_id", STRING)
MEMBER: Final = Field("member_id", STRING)
#: An array of topics, each with its id and its partitions.
TOPIC_PARTITIONS: Final = Array(
    Struct(Field("topic_id", UUID), Field("partitions", Array(INT32))),
)


@dataclass(frozen=True, slots=True)
class RecordType:
    """One type of record, listed in `record_registry.py`.

    kind: of the groups that the record is a part of; None for committed offsets.
    key_class: what keys are read as.
    ends_group: whether a tombstone says that the group no longer exists.
    """

    kind: GroupKind | None
    key_class: type[Any]
    key: KeySchema[Any]
    value: ValueSchema[Any] | ByHand
    ends_group: bool = False


def record_type(
    key_type: int,
    kind: GroupKind,
    key_class: type[Any],
    value: ValueSchema[Any] | ByHand,
    *more: Field,
    ends_group: bool = False,
) -> RecordType:
    """A type whose keys have the group's id, and `more` fields after it."""
    key: KeySchema[Any] = KeySchema(key_type, key_class, GROUP, *more)
    return RecordType(kind, key_class, key, value, ends_group)
