"""Records of `__share_group_state`: snapshots and updates, as Apache Kafka has them.

    key type 0  ShareSnapshot   all of a share partition's state; without a value: it is gone
    key type 1  ShareUpdate     what has changed since the snapshot with the same epoch

Both keys name group, topic id and partition. Nothing here is compacted; what a
later snapshot makes redundant is deleted from the log's start (`shard.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from drumlin.coordination.internal_records.record_fields import FieldReader
from drumlin.coordination.internal_records.record_schema import (
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    Array,
    Field,
    KeySchema,
    Struct,
    ValueSchema,
)
from drumlin.coordination.internal_records.record_schema import UUID as TOPIC_ID
from drumlin.coordination.share.state.state import (
    UNKNOWN_COUNT,
    SharePartitionKey,
    ShareState,
    StateBatch,
)


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
    """A change. Its state epoch has no meaning; a start offset of -1 means no change."""

    snapshot_epoch: int
    state: ShareState
    merged: Merged | None = field(default=None, compare=False, repr=False)
    """What it makes of a state, where that is known already; not in the log."""


#: A record of the topic; a key without a value is a tombstone.
ShareRecord = tuple[SharePartitionKey, Snapshot | Update | None]


def _snapshot(
    snapshot_epoch: int,
    state_epoch: int,
    leader_epoch: int,
    start_offset: int,
    created_ms: int,
    written_ms: int,
    batches: list[tuple[Any, ...]],
    count: int,
) -> Snapshot:
    state = ShareState(state_epoch, leader_epoch, start_offset, count, _batches(batches))
    return Snapshot(snapshot_epoch, state, created_ms, written_ms)


def _parts_of_snapshot(value: Snapshot) -> tuple[Any, ...]:
    state = value.state
    return (
        value.snapshot_epoch,
        state.state_epoch,
        state.leader_epoch,
        state.start_offset,
        value.created_ms,
        value.written_ms,
        state.batches,
        state.delivery_complete_count,
    )


def _update(
    snapshot_epoch: int,
    leader_epoch: int,
    start_offset: int,
    batches: list[tuple[Any, ...]],
    count: int,
) -> Update:
    state = ShareState(-1, leader_epoch, start_offset, count, _batches(batches))
    return Update(snapshot_epoch, state)


def _parts_of_update(value: Update) -> tuple[Any, ...]:
    state = value.state
    return (
        value.snapshot_epoch,
        state.leader_epoch,
        state.start_offset,
        state.batches,
        state.delivery_complete_count,
    )


def _batches(batches: list[tuple[Any, ...]]) -> tuple[StateBatch, ...]:
    return tuple(map(StateBatch._make, batches))


_BATCHES: Final = (
    Field(
        "batches",
        Array(
            Struct(
                Field("first_offset", INT64),
                Field("last_offset", INT64),
                Field("delivery_state", INT8),
                Field("delivery_count", INT16),
            )
        ),
    ),
    Field("delivery_complete_count", INT32, tag=0, default=UNKNOWN_COUNT),
)
SNAPSHOT: Final = ValueSchema(
    "share snapshot",
    _snapshot,
    Field("snapshot_epoch", INT32),
    Field("state_epoch", INT32),
    Field("leader_epoch", INT32),
    Field("start_offset", INT64),
    Field("created_ms", INT64),
    Field("written_ms", INT64),
    *_BATCHES,
    parts_of=_parts_of_snapshot,
)
UPDATE: Final = ValueSchema(
    "share update",
    _update,
    Field("snapshot_epoch", INT32),
    Field("leader_epoch", INT32),
    Field("start_offset", INT64),
    *_BATCHES,
    parts_of=_parts_of_update,
)
_KEY: Final = (Field("group_id", STRING), Field("topic_id", TOPIC_ID), Field("partition", INT32))
_SNAPSHOT_KEY: Final = KeySchema(0, SharePartitionKey, *_KEY)
_UPDATE_KEY: Final = KeySchema(1, SharePartitionKey, *_KEY)


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
    """The key, and whether it is a snapshot's; None if it is of a type that is not known here.

    Raises:
        UnreadableRecord: the bytes are no key at all.
    """
    reader = FieldReader(data)
    key_type = reader.int16()
    for schema in (_SNAPSHOT_KEY, _UPDATE_KEY):
        if key_type == schema.key_type:
            return schema.read(reader), schema is _SNAPSHOT_KEY
    return None
