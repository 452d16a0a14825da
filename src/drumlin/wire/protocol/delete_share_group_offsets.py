"""DeleteShareGroupOffsets (key 92), version 0."""

from __future__ import annotations

from uuid import UUID

from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.schema.declaration import message
from drumlin.wire.schema.types import Milliseconds32


@message
class DeleteShareGroupOffsetsRequestTopic:
    topic_name: str


@message
class DeleteShareGroupOffsetsRequest:
    group_id: str
    topics: tuple[DeleteShareGroupOffsetsRequestTopic, ...]


@message
class DeleteShareGroupOffsetsResponseTopic:
    topic_name: str
    topic_id: UUID | None
    error_code: ErrorCode
    error_message: str | None = None


@message
class DeleteShareGroupOffsetsResponse:
    throttle_time: Milliseconds32
    error_code: ErrorCode
    error_message: str | None = None
    responses: tuple[DeleteShareGroupOffsetsResponseTopic, ...]
