"""ShareFetch (key 78), versions 1 to 2."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.schema.declaration import Versions, message
from drumlin.wire.schema.types import Int8, Int16, Int32, Int64, Milliseconds32, Records


@message
class AcknowledgementBatch:
    first_offset: Int64
    last_offset: Int64
    acknowledge_types: tuple[Int8, ...] = ()


@message
class FetchPartition:
    partition_index: Int32
    acknowledgement_batches: tuple[AcknowledgementBatch, ...]


@message
class FetchTopic:
    topic_id: UUID | None
    partitions: tuple[FetchPartition, ...]


@message
class ForgottenTopic:
    topic_id: UUID | None
    partitions: tuple[Int32, ...] = ()


@message
class ShareFetchRequest:
    group_id: str | None = None
    member_id: str | None
    share_session_epoch: Int32
    max_wait: Milliseconds32
    min_bytes: Int32
    max_bytes: Int32 = 2147483647
    max_records: Int32
    batch_size: Int32
    share_acquire_mode: Annotated[Int8, Versions(2)] = 0
    is_renew_ack: Annotated[bool, Versions(2)] = False
    topics: tuple[FetchTopic, ...]
    forgotten_topics_data: tuple[ForgottenTopic, ...]


@message
class LeaderIdAndEpoch:
    leader_id: Int32
    leader_epoch: Int32


@message
class AcquiredRecords:
    first_offset: Int64
    last_offset: Int64
    delivery_count: Int16


@message
class PartitionData:
    partition_index: Int32
    error_code: ErrorCode
    error_message: str | None = None
    acknowledge_error_code: Int16
    acknowledge_error_message: str | None = None
    current_leader: LeaderIdAndEpoch
    records: Records
    acquired_records: tuple[AcquiredRecords, ...]


@message
class ShareFetchableTopicResponse:
    topic_id: UUID | None
    partitions: tuple[PartitionData, ...]


@message
class NodeEndpoint:
    node_id: Int32
    host: str
    port: Int32
    rack: str | None = None


@message
class ShareFetchResponse:
    throttle_time: Milliseconds32
    error_code: ErrorCode
    error_message: str | None = None
    acquisition_lock_timeout: Milliseconds32
    responses: tuple[ShareFetchableTopicResponse, ...]
    node_endpoints: tuple[NodeEndpoint, ...]
