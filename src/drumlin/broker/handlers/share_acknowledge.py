"""ShareAcknowledge (key 79), versions 1-2: what became of records that a member was given.

It belongs to the member's share session, whose epoch it advances; epoch -1 ends the session, and
what the member still has goes to others. The answer waits until all is written.

Version notes: 2 renewal of locks (KIP-1222), and how long they hold.
"""

from __future__ import annotations

from typing import Any, Final

from drumlin.broker.context import RequestContext
from drumlin.broker.shares.acknowledging import acknowledgements, begin_to_acknowledge
from drumlin.broker.shares.answers import share_answer
from drumlin.broker.shares.requests import member_of
from drumlin.broker.shares.sessions import FINAL_EPOCH, INITIAL_EPOCH
from drumlin.wire.errors import ErrorCode, KafkaError
from drumlin.wire.messages import Shape

_RENEW_FROM: Final = 2


async def handle(context: RequestContext, request: Any, shape: Shape) -> Any:
    shares = context.broker.shares
    member = member_of(request)
    epoch = request.share_session_epoch
    if epoch == INITIAL_EPOCH:
        raise KafkaError(ErrorCode.invalid_share_session_epoch)
    if epoch == FINAL_EPOCH:
        session = shares.sessions.get(member)
    else:
        session = shares.sessions.go_on(member, epoch)
    begun = begin_to_acknowledge(
        shares,
        member,
        acknowledgements(request.topics),
        knows_renew=context.version >= _RENEW_FROM,
        says_renew=getattr(request, "is_renew_ack", False),
    )
    answers = await begun.answers()
    lock_duration_s = shares.settings(member.group_id).delivery().lock_duration_s
    if epoch == FINAL_EPOCH:
        shares.leave(session)
    partitions = []
    for shared, (code, message) in answers.items():
        answer = shape(
            "PartitionData",
            partition_index=shared.partition,
            error_code=code,
            error_message=message,
            current_leader=shape("LeaderIdAndEpoch", leader_id=0, leader_epoch=0),
        )
        partitions.append((shared, answer))
    return share_answer(shape, "ShareAcknowledgeResponse", lock_duration_s, partitions)
