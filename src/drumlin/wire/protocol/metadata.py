"""Metadata (key 3), versions 0 to 13."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.schema.declaration import NullFrom, Versions, message
from drumlin.wire.schema.types import ZERO, Int32, Milliseconds32


@message
class MetadataRequestTopic:
    topic_id: Annotated[UUID | None, Versions(10)] = None
    name: Annotated[str | None, NullFrom(10)]


@message
class MetadataRequest:
    topics: Annotated[tuple[MetadataRequestTopic, ...] | None, NullFrom(1)]
    allow_auto_topic_creation: Annotated[bool, Versions(4)] = True
    include_cluster_authorized_operations: Annotated[bool, Versions(8, 10)] = False
    include_topic_authorized_operations: Annotated[bool, Versions(8)] = False


@message
class MetadataResponseBroker:
    node_id: Int32
    host: str
    port: Int32
    rack: Annotated[str | None, Versions(1)] = None


@message
class MetadataResponsePartition:
    error_code: ErrorCode
    partition_index: Int32
    leader_id: Int32
    leader_epoch: Annotated[Int32, Versions(7)] = -1
    replica_nodes: tuple[Int32, ...] = ()
    isr_nodes: tuple[Int32, ...] = ()
    offline_replicas: Annotated[tuple[Int32, ...], Versions(5)] = ()


@message
class MetadataResponseTopic:
    error_code: ErrorCode
    name: Annotated[str | None, NullFrom(12)]
    topic_id: Annotated[UUID | None, Versions(10)] = None
    is_internal: Annotated[bool, Versions(1)] = False
    partitions: tuple[MetadataResponsePartition, ...]
    topic_authorized_operations: Annotated[Int32, Versions(8)] = -2147483648


@message
class MetadataResponse:
    throttle_time: Annotated[Milliseconds32, Versions(3)] = ZERO
    brokers: tuple[MetadataResponseBroker, ...]
    cluster_id: Annotated[str | None, Versions(2)] = None
    controller_id: Annotated[Int32, Versions(1)] = -1
    topics: tuple[MetadataResponseTopic, ...]
    cluster_authorized_operations: Annotated[Int32, Versions(8, 10)] = -2147483648
    error_code: Annotated[ErrorCode, Versions(13)] = ErrorCode.none
