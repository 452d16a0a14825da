"""ReadShareGroupState (key 84), version 0."""

from __future__ import annotations

from uuid import UUID

from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.schema.declaration import message
from drumlin.wire.schema.types import Int8, Int16, Int32, Int64


@message
class PartitionData:
    partition: Int32
    leader_epoch: Int32


@message
class ReadStateData:
    topic_id: UUID | None
    partitions: tuple[PartitionData, ...]


@message
class ReadShareGroupStateRequest:
    group_id: str
    topics: tuple[ReadStateData, ...]


@message
class StateBatch:
    first_offset: Int64
    last_offset: Int64
    delivery_state: Int8
    delivery_count: Int16


@message
class PartitionResult:
    partition: Int32
    error_code: ErrorCode
    error_message: str | None = None
    state_epoch: Int32
    start_offset: Int64
    state_batches: tuple[StateBatch, ...]


@message
class ReadStateResult:
    topic_id: UUID | None
    partitions: tuple[PartitionResult, ...]


@message
class ReadShareGroupStateResponse:
    results: tuple[ReadStateResult, ...]
