"""OffsetFetch (key 9), versions 1 to 10."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.schema.declaration import NEVER, NullFrom, Versions, message
from drumlin.wire.schema.types import ZERO, Int32, Int64, Milliseconds32


@message
class OffsetFetchRequestTopics:
    name: Annotated[str, Versions(8, 9)] = ""
    topic_id: Annotated[UUID | None, Versions(10)] = None
    partition_indexes: tuple[Int32, ...] = ()


@message
class OffsetFetchRequestGroup:
    group_id: str
    member_id: Annotated[str | None, Versions(9)] = None
    member_epoch: Annotated[Int32, Versions(9)] = -1
    topics: tuple[OffsetFetchRequestTopics, ...] | None


@message
class OffsetFetchRequestTopic:
    name: str
    partition_indexes: tuple[Int32, ...] = ()


@message
class OffsetFetchRequest:
    group_id: Annotated[str, Versions(1, 7)] = ""
    topics: Annotated[
        tuple[OffsetFetchRequestTopic, ...] | None,
        Versions(1, 7),
        NullFrom(2),
    ] = None
    groups: Annotated[
        tuple[OffsetFetchRequestGroup, ...] | None,
        Versions(8),
        NullFrom(NEVER),
    ] = None
    require_stable: Annotated[bool, Versions(7)] = False


@message
class OffsetFetchResponsePartitions:
    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = -1
    metadata: str | None
    error_code: ErrorCode


@message
class OffsetFetchResponseTopics:
    name: Annotated[str, Versions(8, 9)] = ""
    topic_id: Annotated[UUID | None, Versions(10)] = None
    partitions: tuple[OffsetFetchResponsePartitions, ...]


@message
class OffsetFetchResponseGroup:
    group_id: str
    topics: tuple[OffsetFetchResponseTopics, ...]
    error_code: ErrorCode = ErrorCode.none


@message
class OffsetFetchResponsePartition:
    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Annotated[Int32, Versions(5)] = -1
    metadata: str | None
    error_code: ErrorCode


@message
class OffsetFetchResponseTopic:
    name: str
    partitions: tuple[OffsetFetchResponsePartition, ...]


@message
class OffsetFetchResponse:
    throttle_time: Annotated[Milliseconds32, Versions(3)] = ZERO
    topics: Annotated[tuple[OffsetFetchResponseTopic, ...], Versions(1, 7)] = ()
    error_code: Annotated[ErrorCode, Versions(2, 7)] = ErrorCode.none
    groups: Annotated[
        tuple[OffsetFetchResponseGroup, ...] | None,
        Versions(8),
        NullFrom(NEVER),
    ] = None
