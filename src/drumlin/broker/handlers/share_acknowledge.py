"""ShareAcknowledge (key 79), versions 1-2: a member acknowledges records that it acquired.

It belongs to the member's share session, whose epoch it advances; epoch -1 ends the session, and
the records that the member still holds become available again. Answered when all is written.

Version notes: 2 adds renewal of acquisition locks (KIP-1222), and their duration.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Final

from drumlin.broker.context import RequestContext
from drumlin.broker.parts.leader_hints import LeaderHints
from drumlin.broker.share_fetch.acknowledgements import (
    Acknowledging,
    Answers,
    acknowledgements,
    begin_to_acknowledge,
    forget,
)
from drumlin.broker.share_fetch.answers import current_leader, share_answer
from drumlin.broker.share_fetch.requests import member_of
from drumlin.broker.share_partitions.sessions import FINAL_EPOCH, INITIAL_EPOCH, ShareSession
from drumlin.turns import Work, let_go
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.messages import Shape

if TYPE_CHECKING:
    from kio.schema.share_acknowledge.v2.request import ShareAcknowledgeRequest
    from kio.schema.share_acknowledge.v2.response import ShareAcknowledgeResponse

_RENEW_FROM: Final = 2


def handle(
    context: RequestContext, request: ShareAcknowledgeRequest, shape: Shape
) -> Work[Awaitable[Work[ShareAcknowledgeResponse]]]:
    shares = context.broker.shares
    member = member_of(request)
    epoch = request.share_session_epoch
    said = yield from acknowledgements(request.topics)
    try:
        if epoch == INITIAL_EPOCH:
            raise KafkaError(ErrorCode.invalid_share_session_epoch)
        if epoch == FINAL_EPOCH:
            session = shares.sessions.get(member)
        else:
            session = yield from shares.sessions.go_on(member, epoch)
    except KafkaError:
        yield from forget(said)
        raise
    begun = yield from begin_to_acknowledge(
        shares,
        member,
        said,
        knows_renew=context.version >= _RENEW_FROM,
        says_renew=getattr(request, "is_renew_ack", False),
    )
    yield from forget(said)
    return _respond(context, shape, session, begun, is_last=epoch == FINAL_EPOCH)


async def _respond(
    context: RequestContext,
    shape: Shape,
    session: ShareSession,
    begun: Acknowledging,
    *,
    is_last: bool,
) -> Work[ShareAcknowledgeResponse]:
    shares, member = context.broker.shares, session.member
    answers = await begun.answers()
    lock_duration_s = shares.settings(member.group_id).delivery().lock_duration_s
    if is_last:
        shares.leave(session)
    hints = LeaderHints(context.broker, context.listener)
    return _told(shape, answers, lock_duration_s, hints)


def _told(
    shape: Shape, answers: Answers, lock_duration_s: float, hints: LeaderHints
) -> Work[ShareAcknowledgeResponse]:
    partitions = []
    for shared, (code, message) in answers.items():
        told = shape(
            "PartitionData",
            partition_index=shared.partition,
            error_code=code,
            error_message=message,
            current_leader=current_leader(shape, hints, shared, code),
        )
        partitions.append((shared, told))
        yield
    yield from let_go(answers)
    answer: ShareAcknowledgeResponse = yield from share_answer(
        shape, "ShareAcknowledgeResponse", lock_duration_s, partitions, hints
    )
    yield from let_go(partitions)
    return answer
