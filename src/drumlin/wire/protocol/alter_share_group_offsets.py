"""AlterShareGroupOffsets (key 91), version 0."""

from __future__ import annotations

from uuid import UUID

from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.schema.declaration import message
from drumlin.wire.schema.types import Int32, Int64, Milliseconds32


@message
class AlterShareGroupOffsetsRequestPartition:
    partition_index: Int32
    start_offset: Int64


@message
class AlterShareGroupOffsetsRequestTopic:
    topic_name: str
    partitions: tuple[AlterShareGroupOffsetsRequestPartition, ...]


@message
class AlterShareGroupOffsetsRequest:
    group_id: str
    topics: tuple[AlterShareGroupOffsetsRequestTopic, ...]


@message
class AlterShareGroupOffsetsResponsePartition:
    partition_index: Int32
    error_code: ErrorCode
    error_message: str | None = None


@message
class AlterShareGroupOffsetsResponseTopic:
    topic_name: str
    topic_id: UUID | None
    partitions: tuple[AlterShareGroupOffsetsResponsePartition, ...]


@message
class AlterShareGroupOffsetsResponse:
    throttle_time: Milliseconds32
    error_code: ErrorCode
    error_message: str | None = None
    responses: tuple[AlterShareGroupOffsetsResponseTopic, ...]
