"""The answer to a share request as a whole; of its partitions the handlers speak."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from drumlin.broker.share_fetch.sessions import SessionPartition
from drumlin.turns import Work, let_go
from drumlin.wire.errors import ErrorCode
from drumlin.wire.messages import ZERO, Shape

_TOPIC_IN: Final[Mapping[str, str]] = {
    "ShareFetchResponse": "ShareFetchableTopicResponse",
    "ShareAcknowledgeResponse": "ShareAcknowledgeTopicResponse",
}


def share_answer(
    shape: Shape,
    message: str,
    lock_duration_s: float,
    partitions: Iterable[tuple[SessionPartition, Any]],
) -> Work[Any]:
    """The response, made in turns.

    Args:
        message: the name of the response.
        lock_duration_s: for how long a record is the member's.
        partitions: what is said of each share partition.
    """
    topics: dict[UUID | None, list[Any]] = {}
    for shared, answer in partitions:
        topics.setdefault(shared.topic_id, []).append(answer)
        yield
    responses = []
    for topic_id, answers in topics.items():
        responses.append(shape(_TOPIC_IN[message], topic_id=topic_id, partitions=tuple(answers)))
        yield
    yield from let_go(topics)
    return shape(
        message,
        throttle_time=ZERO,
        error_code=ErrorCode.none,
        acquisition_lock_timeout=timedelta(seconds=lock_duration_s),
        responses=tuple(responses),
        node_endpoints=(),
    )
