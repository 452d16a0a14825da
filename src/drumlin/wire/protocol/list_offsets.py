"""ListOffsets (key 2), versions 1 to 11."""

from __future__ import annotations

from typing import Annotated

from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.schema.declaration import Versions, message
from drumlin.wire.schema.types import ZERO, Int8, Int32, Int64, Milliseconds32


@message
class ListOffsetsPartition:
    partition_index: Int32
    current_leader_epoch: Annotated[Int32, Versions(4)] = -1
    timestamp: Int64


@message
class ListOffsetsTopic:
    name: str
    partitions: tuple[ListOffsetsPartition, ...]


@message
class ListOffsetsRequest:
    replica_id: Int32
    isolation_level: Annotated[Int8, Versions(2)] = 0
    topics: tuple[ListOffsetsTopic, ...]
    timeout: Annotated[Milliseconds32, Versions(10)] = ZERO


@message
class ListOffsetsPartitionResponse:
    partition_index: Int32
    error_code: ErrorCode
    timestamp: Int64 = -1
    offset: Int64 = -1
    leader_epoch: Annotated[Int32, Versions(4)] = -1


@message
class ListOffsetsTopicResponse:
    name: str
    partitions: tuple[ListOffsetsPartitionResponse, ...]


@message
class ListOffsetsResponse:
    throttle_time: Annotated[Milliseconds32, Versions(2)] = ZERO
    topics: tuple[ListOffsetsTopicResponse, ...]
