"""ReadShareGroupStateSummary (key 87), versions 0 to 1."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.schema.declaration import Versions, message
from drumlin.wire.schema.types import Int32, Int64


@message
class PartitionData:
    partition: Int32
    leader_epoch: Int32


@message
class ReadStateSummaryData:
    topic_id: UUID | None
    partitions: tuple[PartitionData, ...]


@message
class ReadShareGroupStateSummaryRequest:
    group_id: str
    topics: tuple[ReadStateSummaryData, ...]


@message
class PartitionResult:
    partition: Int32
    error_code: ErrorCode
    error_message: str | None = None
    state_epoch: Int32
    leader_epoch: Int32
    start_offset: Int64
    delivery_complete_count: Annotated[Int32, Versions(1)] = -1


@message
class ReadStateSummaryResult:
    topic_id: UUID | None
    partitions: tuple[PartitionResult, ...]


@message
class ReadShareGroupStateSummaryResponse:
    results: tuple[ReadStateSummaryResult, ...]
