"""DescribeProducers (key 61), version 0."""

from __future__ import annotations

from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.schema.declaration import message
from drumlin.wire.schema.types import Int32, Int64, Milliseconds32


@message
class TopicRequest:
    name: str
    partition_indexes: tuple[Int32, ...] = ()


@message
class DescribeProducersRequest:
    topics: tuple[TopicRequest, ...]


@message
class ProducerState:
    producer_id: Int64
    producer_epoch: Int32
    last_sequence: Int32 = -1
    last_timestamp: Int64 = -1
    coordinator_epoch: Int32
    current_txn_start_offset: Int64 = -1


@message
class PartitionResponse:
    partition_index: Int32
    error_code: ErrorCode
    error_message: str | None = None
    active_producers: tuple[ProducerState, ...]


@message
class TopicResponse:
    name: str
    partitions: tuple[PartitionResponse, ...]


@message
class DescribeProducersResponse:
    throttle_time: Milliseconds32
    topics: tuple[TopicResponse, ...]
