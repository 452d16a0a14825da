"""WriteShareGroupState (key 85), versions 0 to 1."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.schema.declaration import Versions, message
from drumlin.wire.schema.types import Int8, Int16, Int32, Int64


@message
class StateBatch:
    first_offset: Int64
    last_offset: Int64
    delivery_state: Int8
    delivery_count: Int16


@message
class PartitionData:
    partition: Int32
    state_epoch: Int32
    leader_epoch: Int32
    start_offset: Int64
    delivery_complete_count: Annotated[Int32, Versions(1)] = -1
    state_batches: tuple[StateBatch, ...]


@message
class WriteStateData:
    topic_id: UUID | None
    partitions: tuple[PartitionData, ...]


@message
class WriteShareGroupStateRequest:
    group_id: str
    topics: tuple[WriteStateData, ...]


@message
class PartitionResult:
    partition: Int32
    error_code: ErrorCode
    error_message: str | None = None


@message
class WriteStateResult:
    topic_id: UUID | None
    partitions: tuple[PartitionResult, ...]


@message
class WriteShareGroupStateResponse:
    results: tuple[WriteStateResult, ...]
