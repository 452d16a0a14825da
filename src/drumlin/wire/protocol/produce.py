"""Produce (key 0), versions 3 to 13."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.schema.declaration import Tag, Versions, message
from drumlin.wire.schema.types import ZERO, Int16, Int32, Int64, Milliseconds32, Moment, Records


@message
class PartitionProduceData:
    index: Int32
    records: Records | None


@message
class TopicProduceData:
    name: Annotated[str, Versions(3, 12)] = ""
    topic_id: Annotated[UUID | None, Versions(13)] = None
    partition_data: tuple[PartitionProduceData, ...]


@message
class ProduceRequest:
    transactional_id: str | None = None
    acks: Int16
    timeout: Milliseconds32
    topic_data: tuple[TopicProduceData, ...]


@message
class BatchIndexAndErrorMessage:
    batch_index: Int32
    batch_index_error_message: str | None = None


@message
class LeaderIdAndEpoch:
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


@message
class PartitionProduceResponse:
    index: Int32
    error_code: ErrorCode
    base_offset: Int64
    log_append_time: Moment | None = None
    log_start_offset: Annotated[Int64, Versions(5)] = -1
    record_errors: Annotated[tuple[BatchIndexAndErrorMessage, ...], Versions(8)] = ()
    error_message: Annotated[str | None, Versions(8)] = None
    current_leader: Annotated[LeaderIdAndEpoch, Versions(10), Tag(0)] = LeaderIdAndEpoch()


@message
class TopicProduceResponse:
    name: Annotated[str, Versions(3, 12)] = ""
    topic_id: Annotated[UUID | None, Versions(13)] = None
    partition_responses: tuple[PartitionProduceResponse, ...]


@message
class NodeEndpoint:
    node_id: Int32
    host: str
    port: Int32
    rack: str | None = None


@message
class ProduceResponse:
    responses: tuple[TopicProduceResponse, ...]
    throttle_time: Milliseconds32 = ZERO
    node_endpoints: Annotated[tuple[NodeEndpoint, ...], Versions(10), Tag(0)] = ()
