"""Committed offsets in `__consumer_offsets`, as Apache Kafka has them.

    key type 0, 1   a committed offset      group, topic, partition

Values are written as Kafka 4.3 writes them and read in every version there has been. A null
value is a tombstone. What else is in the topic is told in `record_types.py`.
"""

from __future__ import annotations

from typing import Final, NamedTuple
from uuid import UUID

from drumlin.coordination.groups.record_type import RecordType, read_version
from drumlin.coordination.record_fields import FieldReader, FieldWriter, UnreadableRecord

_OFFSET_KEY_TYPES: Final = (0, 1)

_OFFSET_VERSION_WITH_EXPIRY: Final = 1
_OFFSET_VERSION_WITH_LEADER_EPOCH: Final = 3
_OFFSET_VERSION_WITH_TOPIC_ID: Final = 4
_TOPIC_ID_TAG: Final = 0
_FIRST_FLEXIBLE_VERSION: Final = 4
_LAST_VERSION: Final = 4

NO_LEADER_EPOCH: Final = -1
_NONE: Final = -1


class OffsetKey(NamedTuple):
    """Whose offset, and where."""

    group_id: str
    topic: str
    partition: int


class CommittedOffset(NamedTuple):
    """One committed position of a group."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int | None = None
    """Only clients of the oldest versions set it; then retention is not asked."""
    topic_id: UUID | None = None


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
    version = read_version(reader, "committed offset", _LAST_VERSION, _FIRST_FLEXIBLE_VERSION)
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


def _read_key(reader: FieldReader) -> OffsetKey:
    return OffsetKey(reader.string(), reader.string(), reader.int32())


def _write_key(writer: FieldWriter, key: OffsetKey) -> None:
    writer.string(key.group_id)
    writer.string(key.topic)
    writer.int32(key.partition)


#: The older type comes first: what is written is of the last one.
RECORD_TYPES: Final = tuple(
    RecordType(key_type, None, OffsetKey, _read_key, _write_key, encode_offset, decode_offset)
    for key_type in _OFFSET_KEY_TYPES
)
