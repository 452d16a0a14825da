"""OffsetCommit (key 8), versions 2 to 10."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated
from uuid import UUID

from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.schema.declaration import Versions, message
from drumlin.wire.schema.types import ZERO, Int32, Int64, Milliseconds32, Milliseconds64


@message
class OffsetCommitRequestPartition:
    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Annotated[Int32, Versions(6)] = -1
    committed_metadata: str | None


@message
class OffsetCommitRequestTopic:
    name: Annotated[str, Versions(2, 9)] = ""
    topic_id: Annotated[UUID | None, Versions(10)] = None
    partitions: tuple[OffsetCommitRequestPartition, ...]


@message
class OffsetCommitRequest:
    group_id: str
    generation_id_or_member_epoch: Int32 = -1
    member_id: str
    retention_time: Annotated[Milliseconds64, Versions(2, 4)] = timedelta(milliseconds=-1)
    group_instance_id: Annotated[str | None, Versions(7)] = None
    topics: tuple[OffsetCommitRequestTopic, ...]


@message
class OffsetCommitResponsePartition:
    partition_index: Int32
    error_code: ErrorCode


@message
class OffsetCommitResponseTopic:
    name: Annotated[str, Versions(2, 9)] = ""
    topic_id: Annotated[UUID | None, Versions(10)] = None
    partitions: tuple[OffsetCommitResponsePartition, ...]


@message
class OffsetCommitResponse:
    throttle_time: Annotated[Milliseconds32, Versions(3)] = ZERO
    topics: tuple[OffsetCommitResponseTopic, ...]
