"""DeleteRecords (key 21), versions 0 to 2."""

from __future__ import annotations

from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.schema.declaration import message
from drumlin.wire.schema.types import Int32, Int64, Milliseconds32


@message
class DeleteRecordsPartition:
    partition_index: Int32
    offset: Int64


@message
class DeleteRecordsTopic:
    name: str
    partitions: tuple[DeleteRecordsPartition, ...]


@message
class DeleteRecordsRequest:
    topics: tuple[DeleteRecordsTopic, ...]
    timeout: Milliseconds32


@message
class DeleteRecordsPartitionResult:
    partition_index: Int32
    low_watermark: Int64
    error_code: ErrorCode


@message
class DeleteRecordsTopicResult:
    name: str
    partitions: tuple[DeleteRecordsPartitionResult, ...]


@message
class DeleteRecordsResponse:
    throttle_time: Milliseconds32
    topics: tuple[DeleteRecordsTopicResult, ...]
