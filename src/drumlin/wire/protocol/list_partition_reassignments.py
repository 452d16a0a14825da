"""ListPartitionReassignments (key 46), version 0."""

from __future__ import annotations

from datetime import timedelta

from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.schema.declaration import message
from drumlin.wire.schema.types import Int32, Milliseconds32


@message
class ListPartitionReassignmentsTopics:
    name: str
    partition_indexes: tuple[Int32, ...] = ()


@message
class ListPartitionReassignmentsRequest:
    timeout: Milliseconds32 = timedelta(milliseconds=60000)
    topics: tuple[ListPartitionReassignmentsTopics, ...] | None


@message
class OngoingPartitionReassignment:
    partition_index: Int32
    replicas: tuple[Int32, ...] = ()
    adding_replicas: tuple[Int32, ...] = ()
    removing_replicas: tuple[Int32, ...] = ()


@message
class OngoingTopicReassignment:
    name: str
    partitions: tuple[OngoingPartitionReassignment, ...]


@message
class ListPartitionReassignmentsResponse:
    throttle_time: Milliseconds32
    error_code: ErrorCode
    error_message: str | None
    topics: tuple[OngoingTopicReassignment, ...]
