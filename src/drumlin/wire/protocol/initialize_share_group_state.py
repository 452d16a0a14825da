"""InitializeShareGroupState (key 83), version 0."""

from __future__ import annotations

from uuid import UUID

from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.schema.declaration import message
from drumlin.wire.schema.types import Int32, Int64


@message
class PartitionData:
    partition: Int32
    state_epoch: Int32
    start_offset: Int64


@message
class InitializeStateData:
    topic_id: UUID | None
    partitions: tuple[PartitionData, ...]


@message
class InitializeShareGroupStateRequest:
    group_id: str
    topics: tuple[InitializeStateData, ...]


@message
class PartitionResult:
    partition: Int32
    error_code: ErrorCode
    error_message: str | None = None


@message
class InitializeStateResult:
    topic_id: UUID | None
    partitions: tuple[PartitionResult, ...]


@message
class InitializeShareGroupStateResponse:
    results: tuple[InitializeStateResult, ...]
