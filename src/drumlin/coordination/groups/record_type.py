"""How a kind of group says which records of `__consumer_offsets` are its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from drumlin.coordination.groups.kind import GroupKind
from drumlin.coordination.record_fields import FieldReader, FieldWriter, UnreadableRecord


class RecordKey(Protocol):
    """Any key of the topic; each type of record has a class of its own, which can be hashed."""

    @property
    def group_id(self) -> str: ...


#: A record of the topic, key and value; without a value it is a tombstone.
GroupRecord = tuple[RecordKey, Any | None]


@dataclass(frozen=True, slots=True)
class RecordType:
    """One type of record, registered in `record_types.py`.

    key_type: the number that a key starts with.
    kind: of the groups that the record is a part of; None for committed offsets.
    key_class: what `read_key` returns.
    read_key, write_key: all of the key after its number.
    encode_value, decode_value: a whole value, its version included. `decode_value` raises
        `UnreadableRecord`.
    ends_group: whether a tombstone says that there is no such group any more.
    """

    key_type: int
    kind: GroupKind | None
    key_class: type[Any]
    read_key: Callable[[FieldReader], Any]
    write_key: Callable[[FieldWriter, Any], None]
    encode_value: Callable[[Any], bytes]
    decode_value: Callable[[bytes], Any]
    ends_group: bool = False


def type_of_group(
    key_type: int,
    kind: GroupKind,
    key_class: type[Any],
    encode_value: Callable[[Any], bytes],
    decode_value: Callable[[bytes], Any],
    *,
    ends_group: bool = False,
) -> RecordType:
    """A type whose keys name a group, and nothing else."""
    return RecordType(
        key_type,
        kind,
        key_class,
        lambda reader: key_class(reader.string()),
        lambda writer, key: writer.string(key.group_id),
        encode_value,
        decode_value,
        ends_group,
    )


def type_of_part(
    key_type: int,
    kind: GroupKind,
    key_class: type[Any],
    encode_value: Callable[[Any], bytes],
    decode_value: Callable[[bytes], Any],
    *,
    name: str = "member_id",
) -> RecordType:
    """A type whose keys name a group and a part of it, mostly a member: the key's `name`."""

    def write_key(writer: FieldWriter, key: Any) -> None:
        writer.string(key.group_id)
        writer.string(getattr(key, name))

    return RecordType(
        key_type,
        kind,
        key_class,
        lambda reader: key_class(reader.string(), reader.string()),
        write_key,
        encode_value,
        decode_value,
    )


def read_version(
    reader: FieldReader, what: str, last_version: int, first_flexible_version: int = 0
) -> int:
    """The version that a value starts with; the reader goes on as that version demands.

    Raises:
        UnreadableRecord: the version is not known here.
    """
    version = reader.int16()
    if not 0 <= version <= last_version:
        raise UnreadableRecord(f"{what} of version {version}")
    reader.flexible = version >= first_flexible_version
    return version
