"""ShareAcknowledge (key 79), versions 1-2: a member acknowledges records that it acquired.

The request advances the epoch of the member's share session. Epoch -1 ends the session, and the
records that the member still holds become available again. Answered when the acknowledgements are
written.

Version notes: 2 adds renewal of acquisition locks (KIP-1222), and their duration.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from drumlin.broker.context import RequestContext
from drumlin.broker.parts.leader_hints import LeaderHints
from drumlin.broker.share_fetch.acknowledgements import (
    Answers,
    acknowledgements,
    begin_to_acknowledge,
)
from drumlin.broker.share_fetch.answers import by_topic, current_leader
from drumlin.broker.share_fetch.readable import denying
from drumlin.broker.share_fetch.requests import member_of
from drumlin.broker.share_partitions.sessions import FINAL_EPOCH, INITIAL_EPOCH
from drumlin.turns import forget, give_way
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.messages import ZERO
from drumlin.wire.protocol.share_acknowledge import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)

_RENEW_FROM: Final = 2


async def handle(
    context: RequestContext, request: ShareAcknowledgeRequest
) -> ShareAcknowledgeResponse:
    shares = context.broker.shares
    member = member_of(context, request)
    epoch, owner = request.share_session_epoch, context.session.owner
    said = await acknowledgements(request.topics)
    if epoch == INITIAL_EPOCH:
        raise KafkaError(ErrorCode.invalid_share_session_epoch)
    if epoch == FINAL_EPOCH:
        session = shares.sessions.get(member, owner)
    else:
        session = await shares.sessions.go_on(member, owner, epoch)
    begun = await begin_to_acknowledge(
        shares,
        member,
        said,
        denying(context, member.group_id),
        knows_renew=context.version >= _RENEW_FROM,
        says_renew=request.is_renew_ack,
    )
    answers = await begun.answers()
    lock_duration_s = shares.settings(member.group_id).delivery().lock_duration_s
    if epoch == FINAL_EPOCH:
        shares.leave(session)
    hints = LeaderHints(context.broker, context.listener)
    answer = await _told(answers, lock_duration_s, hints)
    await forget(answers, said)
    return answer


async def _told(
    answers: Answers, lock_duration_s: float, hints: LeaderHints
) -> ShareAcknowledgeResponse:
    partitions = []
    for shared, (code, message) in answers.items():
        told = PartitionData(
            partition_index=shared.partition,
            error_code=code,
            error_message=message,
            current_leader=LeaderIdAndEpoch(**current_leader(hints, shared, code)._asdict()),
        )
        partitions.append((shared, told))
        await give_way()
    responses = await by_topic(ShareAcknowledgeTopicResponse, partitions)
    await forget(partitions)
    return ShareAcknowledgeResponse(
        throttle_time=ZERO,
        error_code=ErrorCode.none,
        acquisition_lock_timeout=timedelta(seconds=lock_duration_s),
        responses=responses,
        node_endpoints=tuple(NodeEndpoint(**each._asdict()) for each in hints.addresses()),
    )
