"""AlterPartitionReassignments (key 45), versions 0 to 1."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.schema.declaration import Versions, message
from drumlin.wire.schema.types import Int32, Milliseconds32


@message
class ReassignablePartition:
    partition_index: Int32
    replicas: tuple[Int32, ...] | None = None


@message
class ReassignableTopic:
    name: str
    partitions: tuple[ReassignablePartition, ...]


@message
class AlterPartitionReassignmentsRequest:
    timeout: Milliseconds32 = timedelta(milliseconds=60000)
    allow_replication_factor_change: Annotated[bool, Versions(1)] = True
    topics: tuple[ReassignableTopic, ...]


@message
class ReassignablePartitionResponse:
    partition_index: Int32
    error_code: ErrorCode
    error_message: str | None


@message
class ReassignableTopicResponse:
    name: str
    partitions: tuple[ReassignablePartitionResponse, ...]


@message
class AlterPartitionReassignmentsResponse:
    throttle_time: Milliseconds32
    allow_replication_factor_change: Annotated[bool, Versions(1)] = True
    error_code: ErrorCode
    error_message: str | None
    responses: tuple[ReassignableTopicResponse, ...]
