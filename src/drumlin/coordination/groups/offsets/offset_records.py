"""Committed offsets in `__consumer_offsets`, in Apache Kafka's format.

    key type 0, 1   a committed offset      group, topic, partition

Values are written as Kafka 4.3 writes them, and all versions are read. A null value is a tombstone.
`record_registry.py` has the other records of the topic.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import repeat
from typing import Annotated, Final, NamedTuple
from uuid import UUID

from drumlin.coordination.groups.every_kind.group_record import RecordType
from drumlin.coordination.internal_records.record_schema import ByHand, KeySchema, ValueSchema
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.schema.declaration import Tag, Versions, message
from drumlin.wire.schema.types import STRING_BYTES_MAX, Int32, Int64
from drumlin.wire.uvarint import uvarint

_OFFSET_KEY_TYPES: Final = (0, 1)
_KEY_TYPE: Final = _OFFSET_KEY_TYPES[-1].to_bytes(2, "big")

_OFFSET_VERSION_WITH_EXPIRY: Final = 1
_OFFSET_VERSION_WITH_LEADER_EPOCH: Final = 3
_OFFSET_VERSION_WITH_TOPIC_ID: Final = 4
_LAST_VERSION: Final = 4

NO_LEADER_EPOCH: Final = -1
_NONE: Final = -1

_VERSION_OFFSET: Final = struct.Struct(">hq")  # version, offset
_VERSION_OFFSET_EPOCH: Final = struct.Struct(">hqi")  # and leader epoch
_OFFSET_EPOCH: Final = struct.Struct(">qi")
_LENGTH: Final = struct.Struct(">h")
_TIME: Final = struct.Struct(">q")
#: The number of tagged fields (one), the field's tag, the field's length.
_TOPIC_ID_FOLLOWS: Final = b"\x01\x00\x10"
_NO_TOPIC_ID: Final = bytes(16)
#: A whole value of the last version, without metadata. Nearly all values have this layout.
_USUAL: Final = struct.Struct(">hqiBq3s16s")
#: The parts of such a value: version; offset and leader epoch; length of metadata; tag and topic
#: id.
_USUAL_PARTS: Final = struct.Struct(">h12sB8x19s")
#: A value has this layout, and is readable, if unpacking it gives exactly these fields.
USUAL_VALUES: Final = struct.Struct(">h12xB8x3s16x"), (_LAST_VERSION, 1, _TOPIC_ID_FOLLOWS)
_, _USUALLY = USUAL_VALUES


class OffsetKey(NamedTuple):
    """The group and the partition of an offset."""

    group_id: str
    topic: str
    partition: Int32


class CommittedOffset(NamedTuple):
    """One committed offset of a group."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int | None = None
    """Set only by the oldest clients, in place of the retention time."""
    topic_id: UUID | None = None


def pack_offset_and_epoch(value: CommittedOffset) -> bytes:
    """Pack offset and leader epoch, as they are in a record's value and in a response."""
    return _OFFSET_EPOCH.pack(value.offset, value.leader_epoch)


def encode_offset(value: CommittedOffset) -> bytes:
    packed = pack_offsets(
        [value.offset],
        [value.leader_epoch],
        [value.metadata.encode()],
        OffsetFacts(value.topic_id, value.commit_timestamp_ms, value.expire_timestamp_ms),
    )
    return packed[0]


class OffsetFacts(NamedTuple):
    """The common fields of offsets that are committed together to one topic."""

    topic_id: UUID | None
    commit_timestamp_ms: int
    expire_timestamp_ms: int | None = None


def pack_offsets(
    offsets: Iterable[int],
    leader_epochs: Iterable[int],
    metadata: Iterable[bytes] | None,
    facts: OffsetFacts,
) -> list[bytes]:
    """Encode the values of records for some offsets; `metadata` is None if no offset has any.

    Raises:
        KafkaError: INVALID_REQUEST, metadata is too long for a record.
    """
    topic_id, now_ms, expire_ms = facts
    if metadata is None and topic_id is not None and expire_ms is None:
        pack, raw_id = _USUAL.pack, topic_id.bytes
        return [
            pack(_LAST_VERSION, offset, leader_epoch, 1, now_ms, _TOPIC_ID_FOLLOWS, raw_id)
            for offset, leader_epoch in zip(offsets, leader_epochs, strict=True)
        ]
    times = _TIME.pack(facts.commit_timestamp_ms)
    # Only version 1 has an expiry time, so it is used even though it lacks the topic id.
    if facts.expire_timestamp_ms is not None:
        end = times + _TIME.pack(facts.expire_timestamp_ms)
        ends = _ends(metadata, end, _legacy_bytes)
        return [
            _VERSION_OFFSET.pack(1, offset) + end
            for offset, end in zip(offsets, ends, strict=False)
        ]
    if facts.topic_id is not None:
        version, end = _OFFSET_VERSION_WITH_TOPIC_ID, times + _TOPIC_ID_FOLLOWS
        end += facts.topic_id.bytes
        ends = _ends(metadata, end, _compact_bytes)
    else:
        version = _OFFSET_VERSION_WITH_LEADER_EPOCH
        ends = _ends(metadata, times, _legacy_bytes)
    pack = _VERSION_OFFSET_EPOCH.pack
    return [
        pack(version, offset, leader_epoch) + end
        for offset, leader_epoch, end in zip(offsets, leader_epochs, ends, strict=False)
    ]


def _ends(
    metadata: Iterable[bytes] | None, end: bytes, with_length: Callable[[bytes], bytes]
) -> Iterable[bytes]:
    if metadata is None:
        return repeat(with_length(b"") + end)
    lengths = {len(each): each for each in metadata}
    starts = {size: with_length(each)[: -size or None] for size, each in lengths.items()}
    return [starts[len(each)] + each + end for each in metadata]


def _legacy_bytes(text: bytes) -> bytes:
    return _LENGTH.pack(len(_checked(text))) + text


def _compact_bytes(text: bytes) -> bytes:
    return uvarint(len(_checked(text)) + 1) + text


def _checked(text: bytes) -> bytes:
    if len(text) > STRING_BYTES_MAX:
        message = f"metadata of {len(text)} bytes; {STRING_BYTES_MAX} fit"
        raise KafkaError(ErrorCode.invalid_request, message)
    return text


def decode_offset(data: bytes) -> CommittedOffset:
    """
    Raises:
        UnreadableRecord: the version is unknown, or the bytes are invalid.
    """
    if len(data) == _USUAL.size:
        version, offset, leader_epoch, length, written_ms, tags, topic_id = _USUAL.unpack(data)
        if (version, length, tags) == _USUALLY and topic_id != _NO_TOPIC_ID:
            return CommittedOffset(offset, leader_epoch, "", written_ms, None, _uuid(topic_id))
    return _COMMITTED_OFFSET.decode(data)


def usual_offsets(values: Sequence[bytes | None], topic_id: UUID) -> Sequence[bytes] | None:
    """Offset and leader epoch of each value, packed; None unless all values are usual.

    A usual value is readable, has no metadata, and belongs to this topic.
    """
    if None in values or set(map(len, values)) != {_USUAL.size}:  # type: ignore[arg-type]
        return None
    rows = _USUAL_PARTS.iter_unpack(b"".join(values))  # type: ignore[arg-type]
    versions, offsets, lengths, ends = zip(*rows, strict=True)
    if set(versions) != {_LAST_VERSION} or set(lengths) != {1}:
        return None
    if topic_id.bytes == _NO_TOPIC_ID or set(ends) != {_TOPIC_ID_FOLLOWS + topic_id.bytes}:
        return None
    return offsets


def is_usual(data: bytes) -> bool:
    """Whether a value has the usual layout, and so is readable."""
    layout, fields = USUAL_VALUES
    return len(data) == layout.size and layout.unpack(data) == fields


def facts_of(data: bytes) -> OffsetFacts:
    """The common fields of offsets that were committed together, from a readable value."""
    value = decode_offset(data)
    return OffsetFacts(value.topic_id, value.commit_timestamp_ms, value.expire_timestamp_ms)


_uuid = lru_cache(maxsize=4096)(lambda data: UUID(bytes=data))


@message
class _OffsetFields:
    offset: Int64
    leader_epoch: Annotated[Int32, Versions(_OFFSET_VERSION_WITH_LEADER_EPOCH)] = NO_LEADER_EPOCH
    metadata: str
    commit_timestamp_ms: Int64
    expire_timestamp_ms: Annotated[
        Int64, Versions(_OFFSET_VERSION_WITH_EXPIRY, _OFFSET_VERSION_WITH_EXPIRY)
    ] = _NONE
    topic_id: Annotated[UUID | None, Versions(_OFFSET_VERSION_WITH_TOPIC_ID), Tag(0)] = None


def _committed_offset(fields: _OffsetFields) -> CommittedOffset:
    expire_timestamp_ms = fields.expire_timestamp_ms
    return CommittedOffset(
        fields.offset,
        fields.leader_epoch,
        fields.metadata,
        fields.commit_timestamp_ms,
        None if expire_timestamp_ms == _NONE else expire_timestamp_ms,
        fields.topic_id,
    )


#: Only for decoding: `pack_offsets` encodes many values at a time, and chooses the version itself.
_COMMITTED_OFFSET: Final = ValueSchema(
    "committed offset",
    _OffsetFields,
    _committed_offset,
    last_version=_LAST_VERSION,
    first_flexible_version=_OFFSET_VERSION_WITH_TOPIC_ID,
)


def offset_key_start(group_id: str, topic: str) -> bytes:
    """A record's key without the partition at its end.

    Raises:
        KafkaError: INVALID_REQUEST, a name is too long for a record.
    """
    group, name = group_id.encode(), topic.encode()
    if max(len(group), len(name)) > STRING_BYTES_MAX:
        message = f"a name of more than {STRING_BYTES_MAX} bytes"
        raise KafkaError(ErrorCode.invalid_request, message)
    return b"".join((_KEY_TYPE, _LENGTH.pack(len(group)), group, _LENGTH.pack(len(name)), name))


_VALUE: Final = ByHand(encode_offset, decode_offset)
#: The older type comes first: records are written with the last type of this list.
RECORD_TYPES: Final = tuple(
    RecordType(None, OffsetKey, KeySchema(key_type, OffsetKey), _VALUE)
    for key_type in _OFFSET_KEY_TYPES
)
