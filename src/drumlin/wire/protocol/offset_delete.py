"""OffsetDelete (key 47), version 0."""

from __future__ import annotations

from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.schema.declaration import message
from drumlin.wire.schema.types import Int32, Milliseconds32


@message
class OffsetDeleteRequestPartition:
    partition_index: Int32


@message
class OffsetDeleteRequestTopic:
    name: str
    partitions: tuple[OffsetDeleteRequestPartition, ...]


@message
class OffsetDeleteRequest:
    group_id: str
    topics: tuple[OffsetDeleteRequestTopic, ...]


@message
class OffsetDeleteResponsePartition:
    partition_index: Int32
    error_code: ErrorCode


@message
class OffsetDeleteResponseTopic:
    name: str
    partitions: tuple[OffsetDeleteResponsePartition, ...]


@message
class OffsetDeleteResponse:
    error_code: ErrorCode
    throttle_time: Milliseconds32
    topics: tuple[OffsetDeleteResponseTopic, ...]
