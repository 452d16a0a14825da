"""DeleteShareGroupState (key 86), version 0."""

from __future__ import annotations

from uuid import UUID

from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.schema.declaration import message
from drumlin.wire.schema.types import Int32


@message
class PartitionData:
    partition: Int32


@message
class DeleteStateData:
    topic_id: UUID | None
    partitions: tuple[PartitionData, ...]


@message
class DeleteShareGroupStateRequest:
    group_id: str
    topics: tuple[DeleteStateData, ...]


@message
class PartitionResult:
    partition: Int32
    error_code: ErrorCode
    error_message: str | None = None


@message
class DeleteStateResult:
    topic_id: UUID | None
    partitions: tuple[PartitionResult, ...]


@message
class DeleteShareGroupStateResponse:
    results: tuple[DeleteStateResult, ...]
