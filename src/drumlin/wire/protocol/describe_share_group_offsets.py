"""DescribeShareGroupOffsets (key 90), versions 0 to 1."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.schema.declaration import Versions, message
from drumlin.wire.schema.types import Int32, Int64, Milliseconds32


@message
class DescribeShareGroupOffsetsRequestTopic:
    topic_name: str
    partitions: tuple[Int32, ...] = ()


@message
class DescribeShareGroupOffsetsRequestGroup:
    group_id: str
    topics: tuple[DescribeShareGroupOffsetsRequestTopic, ...] | None


@message
class DescribeShareGroupOffsetsRequest:
    groups: tuple[DescribeShareGroupOffsetsRequestGroup, ...]


@message
class DescribeShareGroupOffsetsResponsePartition:
    partition_index: Int32
    start_offset: Int64
    leader_epoch: Int32
    lag: Annotated[Int64, Versions(1)] = -1
    error_code: ErrorCode
    error_message: str | None = None


@message
class DescribeShareGroupOffsetsResponseTopic:
    topic_name: str
    topic_id: UUID | None
    partitions: tuple[DescribeShareGroupOffsetsResponsePartition, ...]


@message
class DescribeShareGroupOffsetsResponseGroup:
    group_id: str
    topics: tuple[DescribeShareGroupOffsetsResponseTopic, ...]
    error_code: ErrorCode
    error_message: str | None = None


@message
class DescribeShareGroupOffsetsResponse:
    throttle_time: Milliseconds32
    groups: tuple[DescribeShareGroupOffsetsResponseGroup, ...]
