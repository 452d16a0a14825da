"""The answer to a share request as a whole; of its partitions the handlers speak."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from drumlin.broker.parts.leader_hints import LeaderHints
from drumlin.broker.share_partitions.sessions import SessionPartition
from drumlin.turns import give_way
from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.messages import ZERO, Shape

_TOPIC_IN: Final[Mapping[str, str]] = {
    "ShareFetchResponse": "ShareFetchableTopicResponse",
    "ShareAcknowledgeResponse": "ShareAcknowledgeTopicResponse",
}


def current_leader(
    shape: Shape, hints: LeaderHints, shared: SessionPartition, *codes: ErrorCode
) -> Any:
    """Who leads the partition, where one of the codes says that it is not here."""
    for code in codes:
        hint = hints.hint(code, shared.topic_id, shared.partition)
        if hint is not None:
            return shape("LeaderIdAndEpoch", **hint._asdict())
    return shape("LeaderIdAndEpoch", leader_id=0, leader_epoch=0)


async def share_answer(
    shape: Shape,
    message: str,
    lock_duration_s: float,
    partitions: Iterable[tuple[SessionPartition, Any]],
    hints: LeaderHints,
) -> Any:
    """The response, made in turns.

    Args:
        message: the name of the response.
        lock_duration_s: for how long a record is the member's.
        partitions: what is said of each share partition.
        hints: the leaders that are named there.
    """
    topics: dict[UUID | None, list[Any]] = {}
    for shared, answer in partitions:
        topics.setdefault(shared.topic_id, []).append(answer)
        await give_way()
    responses = []
    for topic_id, answers in topics.items():
        responses.append(shape(_TOPIC_IN[message], topic_id=topic_id, partitions=tuple(answers)))
        await give_way()
    return shape(
        message,
        throttle_time=ZERO,
        error_code=ErrorCode.none,
        acquisition_lock_timeout=timedelta(seconds=lock_duration_s),
        responses=tuple(responses),
        node_endpoints=tuple(shape("NodeEndpoint", **each._asdict()) for each in hints.addresses()),
    )
