"""SyncGroup (key 14), versions 0-5: the leader sends the assignment, and each member gets its own.

- Answered when the leader's assignment is in the log: the next request of the connection may
  start meanwhile.
- From version 3 there are static members; from version 5 the protocol's type and name must be
  given, and must be the group's.
"""

from __future__ import annotations

from typing import Final

from drumlin.broker.context import RequestContext
from drumlin.broker.loop.later import Later, waiting
from drumlin.broker.rights.acls import Kind, Operation
from drumlin.broker.rights.denials import DENIED
from drumlin.coordination.groups.every_kind.messages import SyncAnswer, SyncRequest
from drumlin.coordination.shards.pending_answer import Pending
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.messages import ZERO
from drumlin.wire.protocol.sync_group import SyncGroupRequest, SyncGroupResponse

_PROTOCOL_IS_MANDATORY: Final = 5
_DENIED: Final = SyncAnswer(DENIED[Kind.GROUP])


async def handle(
    context: RequestContext, request: SyncGroupRequest
) -> SyncGroupResponse | Later[SyncGroupResponse]:
    if not context.may(Operation.READ, Kind.GROUP, request.group_id):
        return _response(_DENIED)
    protocol = request.protocol_type, request.protocol_name
    if context.version >= _PROTOCOL_IS_MANDATORY and None in protocol:
        return _response(SyncAnswer(ErrorCode.inconsistent_group_protocol))
    sync = SyncRequest(
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        generation_id=request.generation_id,
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignments=((each.member_id, each.assignment) for each in request.assignments),
    )
    try:
        answer = context.broker.groups.sync(request.group_id, sync)
    except KafkaError as error:
        return _response(SyncAnswer(error.code))
    return waiting(_respond(context, request.group_id, answer))


async def _respond(
    context: RequestContext, group_id: str, waiting_for: Pending[SyncAnswer]
) -> SyncGroupResponse:
    answer = await waiting_for
    # The leader may take minutes, and rights may have been revoked by then.
    is_allowed = context.may(Operation.READ, Kind.GROUP, group_id)
    return _response(answer if is_allowed else _DENIED)


def _response(answer: SyncAnswer) -> SyncGroupResponse:
    return SyncGroupResponse(
        throttle_time=ZERO,
        error_code=answer.error,
        protocol_type=answer.protocol_type,
        protocol_name=answer.protocol_name,
        assignment=answer.assignment,
    )
