"""The common parts of the answers to ShareFetch and ShareAcknowledge."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, TypeVar
from uuid import UUID

from drumlin.broker.parts.leader_hints import LeaderHints
from drumlin.broker.share_partitions.sessions import SessionPartition
from drumlin.turns import forget, give_way
from drumlin.wire.by_hand.leader_hints import CurrentLeader
from drumlin.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from drumlin.wire.protocol.share_acknowledge import ShareAcknowledgeTopicResponse
    from drumlin.wire.protocol.share_fetch import ShareFetchableTopicResponse

    Topic = TypeVar("Topic", ShareFetchableTopicResponse, ShareAcknowledgeTopicResponse)


_NO_HINT: Final = CurrentLeader(0, 0)


def current_leader(
    hints: LeaderHints, shared: SessionPartition, *codes: ErrorCode
) -> CurrentLeader:
    """The partition's leader, if one of the codes says that this broker is not the leader; else
    zeros.
    """
    for code in codes:
        hint = hints.hint(code, shared.topic_id, shared.partition)
        if hint is not None:
            return hint
    return _NO_HINT


async def by_topic(
    topic_response: type[Topic], partitions: Iterable[tuple[SessionPartition, Any]]
) -> tuple[Topic, ...]:
    """The partitions' answers, grouped by topic, in the order in which topics first occur."""
    topics: dict[UUID | None, list[Any]] = {}
    for shared, answer in partitions:
        topics.setdefault(shared.topic_id, []).append(answer)
        await give_way()
    responses = []
    for topic_id, answers in topics.items():
        responses.append(topic_response(topic_id=topic_id, partitions=tuple(answers)))
        await give_way()
    answer = tuple(responses)
    await forget(topics, responses)
    return answer
