"""CreatePartitions (key 37), versions 0 to 3."""

from __future__ import annotations

from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.schema.declaration import message
from drumlin.wire.schema.types import Int32, Milliseconds32


@message
class CreatePartitionsAssignment:
    broker_ids: tuple[Int32, ...] = ()


@message
class CreatePartitionsTopic:
    name: str
    count: Int32
    assignments: tuple[CreatePartitionsAssignment, ...] | None


@message
class CreatePartitionsRequest:
    topics: tuple[CreatePartitionsTopic, ...]
    timeout: Milliseconds32
    validate_only: bool


@message
class CreatePartitionsTopicResult:
    name: str
    error_code: ErrorCode
    error_message: str | None = None


@message
class CreatePartitionsResponse:
    throttle_time: Milliseconds32
    results: tuple[CreatePartitionsTopicResult, ...]
