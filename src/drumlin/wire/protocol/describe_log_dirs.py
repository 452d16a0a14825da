"""DescribeLogDirs (key 35), versions 1 to 5."""

from __future__ import annotations

from typing import Annotated

from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.schema.declaration import Versions, message
from drumlin.wire.schema.types import Int32, Int64, Milliseconds32


@message
class DescribableLogDirTopic:
    topic: str
    partitions: tuple[Int32, ...] = ()


@message
class DescribeLogDirsRequest:
    topics: tuple[DescribableLogDirTopic, ...] | None


@message
class DescribeLogDirsPartition:
    partition_index: Int32
    partition_size: Int64
    offset_lag: Int64
    is_future_key: bool


@message
class DescribeLogDirsTopic:
    name: str
    partitions: tuple[DescribeLogDirsPartition, ...]


@message
class DescribeLogDirsResult:
    error_code: ErrorCode
    log_dir: str
    topics: tuple[DescribeLogDirsTopic, ...]
    total_bytes: Annotated[Int64, Versions(4)] = -1
    usable_bytes: Annotated[Int64, Versions(4)] = -1
    is_cordoned: Annotated[bool, Versions(5)] = False


@message
class DescribeLogDirsResponse:
    throttle_time: Milliseconds32
    error_code: Annotated[ErrorCode, Versions(3)] = ErrorCode.none
    results: tuple[DescribeLogDirsResult, ...]
