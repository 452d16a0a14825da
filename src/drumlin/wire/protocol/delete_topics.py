"""DeleteTopics (key 20), versions 1 to 6."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.schema.declaration import NEVER, NullFrom, Versions, message
from drumlin.wire.schema.types import Milliseconds32


@message
class DeleteTopicState:
    name: str | None = None
    topic_id: UUID | None


@message
class DeleteTopicsRequest:
    topic_names: Annotated[tuple[str, ...], Versions(1, 5)] = ()
    topics: Annotated[tuple[DeleteTopicState, ...] | None, Versions(6), NullFrom(NEVER)] = None
    timeout: Milliseconds32


@message
class DeletableTopicResult:
    name: Annotated[str | None, NullFrom(6)]
    topic_id: Annotated[UUID | None, Versions(6)] = None
    error_code: ErrorCode
    error_message: Annotated[str | None, Versions(5)] = None


@message
class DeleteTopicsResponse:
    throttle_time: Milliseconds32
    responses: tuple[DeletableTopicResult, ...]
