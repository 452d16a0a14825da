"""ShareAcknowledge (key 79), versions 1 to 2."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.schema.declaration import Versions, message
from drumlin.wire.schema.types import ZERO, Int8, Int32, Int64, Milliseconds32


@message
class AcknowledgementBatch:
    first_offset: Int64
    last_offset: Int64
    acknowledge_types: tuple[Int8, ...] = ()


@message
class AcknowledgePartition:
    partition_index: Int32
    acknowledgement_batches: tuple[AcknowledgementBatch, ...]


@message
class AcknowledgeTopic:
    topic_id: UUID | None
    partitions: tuple[AcknowledgePartition, ...]


@message
class ShareAcknowledgeRequest:
    group_id: str | None = None
    member_id: str | None
    share_session_epoch: Int32
    is_renew_ack: Annotated[bool, Versions(2)] = False
    topics: tuple[AcknowledgeTopic, ...]


@message
class LeaderIdAndEpoch:
    leader_id: Int32
    leader_epoch: Int32


@message
class PartitionData:
    partition_index: Int32
    error_code: ErrorCode
    error_message: str | None = None
    current_leader: LeaderIdAndEpoch


@message
class ShareAcknowledgeTopicResponse:
    topic_id: UUID | None
    partitions: tuple[PartitionData, ...]


@message
class NodeEndpoint:
    node_id: Int32
    host: str
    port: Int32
    rack: str | None = None


@message
class ShareAcknowledgeResponse:
    throttle_time: Milliseconds32
    error_code: ErrorCode
    error_message: str | None = None
    acquisition_lock_timeout: Annotated[Milliseconds32, Versions(2)] = ZERO
    responses: tuple[ShareAcknowledgeTopicResponse, ...]
    node_endpoints: tuple[NodeEndpoint, ...]
