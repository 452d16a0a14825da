"""ElectLeaders (key 43), versions 0 to 2."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.schema.declaration import Versions, message
from drumlin.wire.schema.types import Int8, Int32, Milliseconds32


@message
class TopicPartitions:
    topic: str
    partitions: tuple[Int32, ...] = ()


@message
class ElectLeadersRequest:
    election_type: Annotated[Int8, Versions(1)] = 0
    topic_partitions: tuple[TopicPartitions, ...] | None
    timeout: Milliseconds32 = timedelta(milliseconds=60000)


@message
class PartitionResult:
    partition_id: Int32
    error_code: ErrorCode
    error_message: str | None


@message
class ReplicaElectionResult:
    topic: str
    partition_result: tuple[PartitionResult, ...]


@message
class ElectLeadersResponse:
    throttle_time: Milliseconds32
    error_code: Annotated[ErrorCode, Versions(1)] = ErrorCode.none
    replica_election_results: tuple[ReplicaElectionResult, ...]
