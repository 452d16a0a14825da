"""TxnOffsetCommit (key 28), versions 0 to 5."""

from __future__ import annotations

from typing import Annotated

from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.schema.declaration import Versions, message
from drumlin.wire.schema.types import Int16, Int32, Int64, Milliseconds32


@message
class TxnOffsetCommitRequestPartition:
    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Annotated[Int32, Versions(2)] = -1
    committed_metadata: str | None


@message
class TxnOffsetCommitRequestTopic:
    name: str
    partitions: tuple[TxnOffsetCommitRequestPartition, ...]


@message
class TxnOffsetCommitRequest:
    transactional_id: str
    group_id: str
    producer_id: Int64
    producer_epoch: Int16
    generation_id: Annotated[Int32, Versions(3)] = -1
    member_id: Annotated[str, Versions(3)] = ""
    group_instance_id: Annotated[str | None, Versions(3)] = None
    topics: tuple[TxnOffsetCommitRequestTopic, ...]


@message
class TxnOffsetCommitResponsePartition:
    partition_index: Int32
    error_code: ErrorCode


@message
class TxnOffsetCommitResponseTopic:
    name: str
    partitions: tuple[TxnOffsetCommitResponsePartition, ...]


@message
class TxnOffsetCommitResponse:
    throttle_time: Milliseconds32
    topics: tuple[TxnOffsetCommitResponseTopic, ...]
