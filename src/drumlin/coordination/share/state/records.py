"""Records of `__share_group_state`: snapshots and updates, in Apache Kafka's format.

    key type 0  ShareSnapshot   the whole state of a share partition; null: it was deleted
    key type 1  ShareUpdate     the changes since the snapshot with the same epoch

Both keys have group, topic id and partition. The topic is not compacted; records that a later
snapshot makes redundant are deleted from the log's start (`shard.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Final, NamedTuple

from drumlin.coordination.internal_records.record_schema import KeySchema, ValueSchema, number_of
from drumlin.coordination.share.state.state import (
    UNKNOWN_COUNT,
    SharePartitionKey,
    ShareState,
    StateBatch,
)
from drumlin.wire.schema.declaration import Tag, message
from drumlin.wire.schema.types import Int32, Int64


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The whole state of a share partition."""

    snapshot_epoch: int
    state: ShareState
    created_ms: int
    written_ms: int


class Merged(NamedTuple):
    """A change with combined batches, and the state before and after it."""

    before: ShareState
    change: ShareState
    after: ShareState


@dataclass(frozen=True, slots=True)
class Update:
    """A change. Its state epoch has no meaning; a start offset of -1 means no change."""

    snapshot_epoch: int
    state: ShareState
    merged: Merged | None = field(default=None, compare=False, repr=False)
    """The states before and after, if already known; not in the log."""


#: A record of the topic; a null value is a tombstone.
ShareRecord = tuple[SharePartitionKey, Snapshot | Update | None]


# -- declared fields -----------------------------------------------------------------------


@message
class _SnapshotFields:
    snapshot_epoch: Int32
    state_epoch: Int32
    leader_epoch: Int32
    start_offset: Int64
    created_ms: Int64
    written_ms: Int64
    batches: tuple[StateBatch, ...]
    delivery_complete_count: Annotated[Int32, Tag(0)] = UNKNOWN_COUNT


@message
class _UpdateFields:
    snapshot_epoch: Int32
    leader_epoch: Int32
    start_offset: Int64
    batches: tuple[StateBatch, ...]
    delivery_complete_count: Annotated[Int32, Tag(0)] = UNKNOWN_COUNT


def _read_snapshot(fields: _SnapshotFields) -> Snapshot:
    state = ShareState(
        fields.state_epoch,
        fields.leader_epoch,
        fields.start_offset,
        fields.delivery_complete_count,
        fields.batches,
    )
    return Snapshot(fields.snapshot_epoch, state, fields.created_ms, fields.written_ms)


def _snapshot_fields(value: Snapshot) -> _SnapshotFields:
    state = value.state
    return _SnapshotFields(
        snapshot_epoch=value.snapshot_epoch,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        created_ms=value.created_ms,
        written_ms=value.written_ms,
        batches=state.batches,
        delivery_complete_count=state.delivery_complete_count,
    )


def _read_update(fields: _UpdateFields) -> Update:
    state = ShareState(
        -1,
        fields.leader_epoch,
        fields.start_offset,
        fields.delivery_complete_count,
        fields.batches,
    )
    return Update(fields.snapshot_epoch, state)


def _update_fields(value: Update) -> _UpdateFields:
    state = value.state
    return _UpdateFields(
        snapshot_epoch=value.snapshot_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        batches=state.batches,
        delivery_complete_count=state.delivery_complete_count,
    )


SNAPSHOT: Final = ValueSchema("share snapshot", _SnapshotFields, _read_snapshot, _snapshot_fields)
UPDATE: Final = ValueSchema("share update", _UpdateFields, _read_update, _update_fields)
_SNAPSHOT_KEY: Final = KeySchema(0, SharePartitionKey)
_UPDATE_KEY: Final = KeySchema(1, SharePartitionKey)


def encode_record(record: ShareRecord) -> tuple[bytes, bytes | None]:
    """Key and value."""
    key, value = record
    match value:
        case Snapshot():
            return _SNAPSHOT_KEY.encode(key), SNAPSHOT.encode(value)
        case Update():
            return _UPDATE_KEY.encode(key), UPDATE.encode(value)
        case None:
            return _SNAPSHOT_KEY.encode(key), None


def decode_key(data: bytes) -> tuple[SharePartitionKey, bool] | None:
    """The key, and whether it is a snapshot's; None if the type is unknown.

    Raises:
        UnreadableRecord: the bytes are not a key.
    """
    key_type = number_of(data)
    for schema in (_SNAPSHOT_KEY, _UPDATE_KEY):
        if key_type == schema.key_type:
            return schema.decode(data), schema is _SNAPSHOT_KEY
    return None
