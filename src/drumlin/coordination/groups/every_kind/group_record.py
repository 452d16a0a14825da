"""Declarations of records of `__consumer_offsets`, for every kind of group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol
from uuid import UUID

from drumlin.coordination.groups.every_kind.kind import GroupKind
from drumlin.coordination.internal_records.record_schema import ByHand, KeySchema, ValueSchema
from drumlin.wire.schema.declaration import message
from drumlin.wire.schema.types import Int32


class RecordKey(Protocol):
    """A key of the topic. Each type of record has its own hashable class of keys."""

    @property
    def group_id(self) -> str: ...


#: A record of the topic: key and value; None is a tombstone.
GroupRecord = tuple[RecordKey, Any | None]


@message
class TopicPartitions:
    """A topic and some of its partitions, in the records of several kinds of groups."""

    topic_id: UUID
    partitions: tuple[Int32, ...]


@dataclass(frozen=True, slots=True)
class RecordType:
    """One type of record, listed in `record_registry.py`.

    kind: the kind of group that has such records; None for committed offsets.
    key_class: the class of decoded keys.
    ends_group: whether a tombstone means that the group no longer exists.
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
    *,
    ends_group: bool = False,
) -> RecordType:
    """A type of record; `key_class` declares the fields of its keys."""
    return RecordType(kind, key_class, KeySchema(key_type, key_class), value, ends_group)
