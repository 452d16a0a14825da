"""OffsetForLeaderEpoch (key 23), versions 2 to 4."""

from __future__ import annotations

from typing import Annotated

from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.schema.declaration import Versions, message
from drumlin.wire.schema.types import Int32, Int64, Milliseconds32


@message
class OffsetForLeaderPartition:
    partition: Int32
    current_leader_epoch: Int32 = -1
    leader_epoch: Int32


@message
class OffsetForLeaderTopic:
    topic: str
    partitions: tuple[OffsetForLeaderPartition, ...]


@message
class OffsetForLeaderEpochRequest:
    replica_id: Annotated[Int32, Versions(3)] = -2
    topics: tuple[OffsetForLeaderTopic, ...]


@message
class EpochEndOffset:
    error_code: ErrorCode
    partition: Int32
    leader_epoch: Int32 = -1
    end_offset: Int64 = -1


@message
class OffsetForLeaderTopicResult:
    topic: str
    partitions: tuple[EpochEndOffset, ...]


@message
class OffsetForLeaderEpochResponse:
    throttle_time: Milliseconds32
    topics: tuple[OffsetForLeaderTopicResult, ...]
