"""ShareAcknowledge (key 79), versions 1-2: a member acknowledges records that it acquired.

It belongs to the member's share session, whose epoch it advances; epoch -1 ends the session, and
the records that the member still holds become available again. Answered when all is written.

Version notes: 2 adds renewal of acquisition locks (KIP-1222), and their duration.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from drumlin.broker.context import RequestContext
from drumlin.broker.parts.leader_hints import LeaderHints
from drumlin.broker.share_fetch.acknowledgements import (
    Answers,
    acknowledgements,
    begin_to_acknowledge,
)
from drumlin.broker.share_fetch.answers import current_leader, share_answer
from drumlin.broker.share_fetch.requests import member_of
from drumlin.broker.share_partitions.sessions import FINAL_EPOCH, INITIAL_EPOCH
from drumlin.turns import give_way
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.messages import Shape

if TYPE_CHECKING:
    from kio.schema.share_acknowledge.v2.request import ShareAcknowledgeRequest
    from kio.schema.share_acknowledge.v2.response import ShareAcknowledgeResponse

_RENEW_FROM: Final = 2


async def handle(
    context: RequestContext, request: ShareAcknowledgeRequest, shape: Shape
) -> ShareAcknowledgeResponse:
    shares = context.broker.shares
    member = member_of(request)
    epoch = request.share_session_epoch
    said = await acknowledgements(request.topics)
    if epoch == INITIAL_EPOCH:
        raise KafkaError(ErrorCode.invalid_share_session_epoch)
    if epoch == FINAL_EPOCH:
        session = shares.sessions.get(member)
    else:
        session = await shares.sessions.go_on(member, epoch)
    begun = await begin_to_acknowledge(
        shares,
        member,
        said,
        knows_renew=context.version >= _RENEW_FROM,
        says_renew=getattr(request, "is_renew_ack", False),
    )
    answers = await begun.answers()
    lock_duration_s = shares.settings(member.group_id).delivery().lock_duration_s
    if epoch == FINAL_EPOCH:
        shares.leave(session)
    hints = LeaderHints(context.broker, context.listener)
    return await _told(shape, answers, lock_duration_s, hints)


async def _told(
    shape: Shape, answers: Answers, lock_duration_s: float, hints: LeaderHints
) -> ShareAcknowledgeResponse:
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
        await give_way()
    answer: ShareAcknowledgeResponse = await share_answer(
        shape, "ShareAcknowledgeResponse", lock_duration_s, partitions, hints
    )
    return answer
