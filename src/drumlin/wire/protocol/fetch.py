"""Fetch (key 1), versions 4 to 18."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.schema.declaration import Tag, Versions, message
from drumlin.wire.schema.types import Int8, Int32, Int64, Milliseconds32, Records


@message
class ReplicaState:
    replica_id: Int32 = -1
    replica_epoch: Int64 = -1


@message
class FetchPartition:
    partition: Int32
    current_leader_epoch: Annotated[Int32, Versions(9)] = -1
    fetch_offset: Int64
    last_fetched_epoch: Annotated[Int32, Versions(12)] = -1
    log_start_offset: Annotated[Int64, Versions(5)] = -1
    partition_max_bytes: Int32
    replica_directory_id: Annotated[UUID | None, Versions(17), Tag(0)] = None
    high_watermark: Annotated[Int64, Versions(18), Tag(1)] = 9223372036854775807


@message
class FetchTopic:
    topic: Annotated[str, Versions(4, 12)] = ""
    topic_id: Annotated[UUID | None, Versions(13)] = None
    partitions: tuple[FetchPartition, ...]


@message
class ForgottenTopic:
    topic: Annotated[str, Versions(7, 12)] = ""
    topic_id: Annotated[UUID | None, Versions(13)] = None
    partitions: tuple[Int32, ...] = ()


@message
class FetchRequest:
    cluster_id: Annotated[str | None, Versions(12), Tag(0)] = None
    replica_id: Annotated[Int32, Versions(4, 14)] = -1
    replica_state: Annotated[ReplicaState, Versions(15), Tag(1)] = ReplicaState()
    max_wait: Milliseconds32
    min_bytes: Int32
    max_bytes: Int32 = 2147483647
    isolation_level: Int8 = 0
    session_id: Annotated[Int32, Versions(7)] = 0
    session_epoch: Annotated[Int32, Versions(7)] = -1
    topics: tuple[FetchTopic, ...]
    forgotten_topics_data: Annotated[tuple[ForgottenTopic, ...], Versions(7)] = ()
    rack_id: Annotated[str, Versions(11)] = ""


@message
class EpochEndOffset:
    epoch: Int32 = -1
    end_offset: Int64 = -1


@message
class LeaderIdAndEpoch:
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


@message
class SnapshotId:
    end_offset: Int64 = -1
    epoch: Int32 = -1


@message
class AbortedTransaction:
    producer_id: Int64
    first_offset: Int64


@message
class PartitionData:
    partition_index: Int32
    error_code: ErrorCode
    high_watermark: Int64
    last_stable_offset: Int64 = -1
    log_start_offset: Annotated[Int64, Versions(5)] = -1
    diverging_epoch: Annotated[EpochEndOffset, Versions(12), Tag(0)] = EpochEndOffset()
    current_leader: Annotated[LeaderIdAndEpoch, Versions(12), Tag(1)] = LeaderIdAndEpoch()
    snapshot_id: Annotated[SnapshotId, Versions(12), Tag(2)] = SnapshotId()
    aborted_transactions: tuple[AbortedTransaction, ...] | None
    preferred_read_replica: Annotated[Int32, Versions(11)] = -1
    records: Records | None


@message
class FetchableTopicResponse:
    topic: Annotated[str, Versions(4, 12)] = ""
    topic_id: Annotated[UUID | None, Versions(13)] = None
    partitions: tuple[PartitionData, ...]


@message
class NodeEndpoint:
    node_id: Int32
    host: str
    port: Int32
    rack: str | None = None


@message
class FetchResponse:
    throttle_time: Milliseconds32
    error_code: Annotated[ErrorCode, Versions(7)] = ErrorCode.none
    session_id: Annotated[Int32, Versions(7)] = 0
    responses: tuple[FetchableTopicResponse, ...]
    node_endpoints: Annotated[tuple[NodeEndpoint, ...], Versions(16), Tag(0)] = ()
