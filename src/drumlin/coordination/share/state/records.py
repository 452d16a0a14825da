"""Records of `__share_group_state`: snapshots and updates, as Apache Kafka has them.

    key type 0  ShareSnapshot   all of a share partition's state; without a value: it is gone
    key type 1  ShareUpdate     what has changed since the snapshot with the same epoch

Both keys name group, topic id and partition. Nothing here is compacted; what a
later snapshot makes redundant is deleted from the log's start (`shard.py`).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, NamedTuple

from drumlin.coordination.record_fields import FieldReader, FieldWriter, UnreadableRecord
from drumlin.coordination.share.state.state import (
    UNKNOWN_COUNT,
    SharePartitionKey,
    ShareState,
    StateBatch,
)

_SNAPSHOT_KEY_TYPE: Final = 0
_UPDATE_KEY_TYPE: Final = 1
_VALUE_VERSION: Final = 0
_COUNT_TAG: Final = 0
#: First and last offset, delivery state, delivery count, and no tagged fields.
_BATCH: Final = "qqbhx"
#: Batches that are packed together. Of each number there is a format, which `struct` may keep.
_AT_ONCE: Final = 64


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All of a share partition's state."""

    snapshot_epoch: int
    state: ShareState
    created_ms: int
    written_ms: int


class Merged(NamedTuple):
    """A change, its batches put together, and the state before and after it."""

    before: ShareState
    change: ShareState
    after: ShareState


@dataclass(frozen=True, slots=True)
class Update:
    """A change; its state epoch means nothing, and a start offset of -1 is none."""

    snapshot_epoch: int
    state: ShareState
    merged: Merged | None = field(default=None, compare=False, repr=False)
    """What it makes of a state, where that is known already; not in the log."""


#: A record of the topic; a key without a value is a tombstone.
ShareRecord = tuple[SharePartitionKey, Snapshot | Update | None]


def encode_record(record: ShareRecord) -> tuple[bytes, bytes | None]:
    """Key and value."""
    key, value = record
    match value:
        case Snapshot():
            return _encode_key(_SNAPSHOT_KEY_TYPE, key), _encode_snapshot(value)
        case Update():
            return _encode_key(_UPDATE_KEY_TYPE, key), _encode_update(value)
        case None:
            return _encode_key(_SNAPSHOT_KEY_TYPE, key), None


def _encode_key(key_type: int, key: SharePartitionKey) -> bytes:
    writer = FieldWriter(key_type)
    writer.string(key.group_id)
    writer.uuid(key.topic_id)
    writer.int32(key.partition)
    return bytes(writer.data)


def _encode_snapshot(value: Snapshot) -> bytes:
    writer = FieldWriter(_VALUE_VERSION, flexible=True)
    writer.int32(value.snapshot_epoch)
    writer.int32(value.state.state_epoch)
    writer.int32(value.state.leader_epoch)
    writer.int64(value.state.start_offset)
    writer.int64(value.created_ms)
    writer.int64(value.written_ms)
    _write_rest(writer, value.state)
    return bytes(writer.data)


def _encode_update(value: Update) -> bytes:
    writer = FieldWriter(_VALUE_VERSION, flexible=True)
    writer.int32(value.snapshot_epoch)
    writer.int32(value.state.leader_epoch)
    writer.int64(value.state.start_offset)
    _write_rest(writer, value.state)
    return bytes(writer.data)


def _write_rest(writer: FieldWriter, state: ShareState) -> None:
    writer.array_length(len(state.batches))
    # There may be thousands: packed one by one, field by field, they take ten times as long.
    for first in range(0, len(state.batches), _AT_ONCE):
        some = state.batches[first : first + _AT_ONCE]
        writer.data += struct.pack(">" + _BATCH * len(some), *chain.from_iterable(some))
    tags = {}
    if state.delivery_complete_count != UNKNOWN_COUNT:
        tags[_COUNT_TAG] = state.delivery_complete_count.to_bytes(4, "big", signed=True)
    writer.tagged_fields(tags)


def decode_key(data: bytes) -> tuple[SharePartitionKey, bool] | None:
    """The key, and whether it is a snapshot's; None if it is of a type that is not known here.

    Raises:
        UnreadableRecord: the bytes are no key at all.
    """
    reader = FieldReader(data)
    key_type = reader.int16()
    if key_type not in (_SNAPSHOT_KEY_TYPE, _UPDATE_KEY_TYPE):
        return None
    key = SharePartitionKey(reader.string(), reader.uuid(), reader.int32())
    return key, key_type == _SNAPSHOT_KEY_TYPE


def decode_snapshot(data: bytes) -> Snapshot:
    """
    Raises:
        UnreadableRecord: a version or bytes that are not known here.
    """
    reader = _value_reader(data, "share snapshot")
    snapshot_epoch = reader.int32()
    state_epoch = reader.int32()
    leader_epoch = reader.int32()
    start_offset = reader.int64()
    created_ms = reader.int64()
    written_ms = reader.int64()
    batches, count = _read_rest(reader)
    state = ShareState(state_epoch, leader_epoch, start_offset, count, batches)
    return Snapshot(snapshot_epoch, state, created_ms, written_ms)


def decode_update(data: bytes) -> Update:
    """
    Raises:
        UnreadableRecord: a version or bytes that are not known here.
    """
    reader = _value_reader(data, "share update")
    snapshot_epoch = reader.int32()
    leader_epoch = reader.int32()
    start_offset = reader.int64()
    batches, count = _read_rest(reader)
    return Update(snapshot_epoch, ShareState(-1, leader_epoch, start_offset, count, batches))


def _value_reader(data: bytes, what: str) -> FieldReader:
    reader = FieldReader(data)
    version = reader.int16()
    if version != _VALUE_VERSION:
        raise UnreadableRecord(f"{what} of version {version}")
    reader.flexible = True
    return reader


def _read_rest(reader: FieldReader) -> tuple[tuple[StateBatch, ...], int]:
    batches = []
    for _ in range(reader.array_length()):
        batches.append(StateBatch(reader.int64(), reader.int64(), reader.int8(), reader.int16()))
        reader.tagged_fields()
    count = reader.tagged_fields().get(_COUNT_TAG)
    if count is None:
        return tuple(batches), UNKNOWN_COUNT
    if len(count) != 4:
        raise UnreadableRecord(f"a count of {len(count)} bytes")
    return tuple(batches), int.from_bytes(count, "big", signed=True)
