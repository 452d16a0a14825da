"""DescribeQuorum (key 55), versions 0 to 2."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.schema.declaration import Versions, message
from drumlin.wire.schema.types import Int32, Int64, UInt16


@message
class RequestPartitionData:
    partition_index: Int32


@message
class RequestTopicData:
    topic_name: str
    partitions: tuple[RequestPartitionData, ...]


@message
class DescribeQuorumRequest:
    topics: tuple[RequestTopicData, ...]


@message
class ReplicaState:
    replica_id: Int32
    replica_directory_id: Annotated[UUID | None, Versions(2)] = None
    log_end_offset: Int64
    last_fetch_timestamp: Annotated[Int64, Versions(1)] = -1
    last_caught_up_timestamp: Annotated[Int64, Versions(1)] = -1


@message
class PartitionData:
    partition_index: Int32
    error_code: ErrorCode
    error_message: Annotated[str | None, Versions(2)] = None
    leader_id: Int32
    leader_epoch: Int32
    high_watermark: Int64
    current_voters: tuple[ReplicaState, ...]
    observers: tuple[ReplicaState, ...]


@message
class TopicData:
    topic_name: str
    partitions: tuple[PartitionData, ...]


@message
class Listener:
    name: str
    host: str
    port: UInt16


@message
class Node:
    node_id: Int32
    listeners: tuple[Listener, ...]


@message
class DescribeQuorumResponse:
    error_code: ErrorCode
    error_message: Annotated[str | None, Versions(2)] = ""
    topics: tuple[TopicData, ...]
    nodes: Annotated[tuple[Node, ...], Versions(2)] = ()
