"""JoinGroup (key 11), versions 0-9: become a member of the group's next generation.

- Answered when the generation begins: the next request of the connection may start meanwhile.
- Version 0 has no rebalance timeout: the session timeout is used instead.
- From version 4 a new dynamic member must join again with the id that it is given (KIP-394), from
  5 there are static members (KIP-345), from 7 the protocol name of an error is null, from 8 the
  member gives a reason (KIP-800), from 9 a static leader may be told to skip the assignment
  (KIP-814).
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from drumlin.broker.context import RequestContext
from drumlin.broker.loop.later import Later, waiting
from drumlin.broker.rights.acls import Kind, Operation
from drumlin.broker.rights.denials import DENIED
from drumlin.coordination.groups.every_kind.messages import NO_MEMBER_ID, JoinAnswer, JoinRequest
from drumlin.coordination.shards.pending_answer import Pending
from drumlin.turns import give_way
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.messages import ZERO
from drumlin.wire.protocol.join_group import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)

_MILLISECOND: Final = timedelta(milliseconds=1)
_REBALANCE_TIMEOUT_FROM: Final = 1
_REQUIRES_KNOWN_MEMBER_ID: Final = 4
_PROTOCOL_NAME_IS_NULLABLE: Final = 7
_CAN_SKIP_ASSIGNMENT: Final = 9
#: Protocols per member: each join compares those of all members. Normally there are one or two.
_PROTOCOLS_MAX: Final = 100
_DENIED: Final = JoinAnswer(DENIED[Kind.GROUP], NO_MEMBER_ID)


async def handle(
    context: RequestContext, request: JoinGroupRequest
) -> JoinGroupResponse | Later[JoinGroupResponse]:
    if not context.may(Operation.READ, Kind.GROUP, request.group_id):
        return await _response(context.version, _DENIED)
    if len(request.protocols) > _PROTOCOLS_MAX:
        refused = JoinAnswer(ErrorCode.invalid_request, request.member_id)
        return await _response(context.version, refused)
    rebalance_timeout = request.rebalance_timeout
    if context.version < _REBALANCE_TIMEOUT_FROM:
        rebalance_timeout = request.session_timeout
    join = JoinRequest(
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        client_id=context.client_id or "",
        client_host=context.client_host,
        rebalance_timeout_ms=rebalance_timeout // _MILLISECOND,
        session_timeout_ms=request.session_timeout // _MILLISECOND,
        protocol_type=request.protocol_type,
        protocols=tuple((each.name, each.metadata) for each in request.protocols),
        requires_known_member_id=context.version >= _REQUIRES_KNOWN_MEMBER_ID,
        can_skip_assignment=context.version >= _CAN_SKIP_ASSIGNMENT,
        reason=request.reason,
        sees=context.topic_right(Operation.DESCRIBE, is_named=False),
    )
    try:
        answer = context.broker.groups.join(request.group_id, join)
    except KafkaError as error:
        is_of_another_kind = error.code is ErrorCode.inconsistent_group_protocol
        member_id = NO_MEMBER_ID if is_of_another_kind else request.member_id
        return await _response(context.version, JoinAnswer(error.code, member_id))
    return waiting(_respond(context, request.group_id, answer))


async def _respond(
    context: RequestContext, group_id: str, waiting_for: Pending[JoinAnswer]
) -> JoinGroupResponse:
    answer = await waiting_for
    # A generation may take minutes to begin, and rights may have been revoked by then.
    if not context.may(Operation.READ, Kind.GROUP, group_id):
        answer = _DENIED
    return await _response(context.version, answer)


async def _response(version: int, answer: JoinAnswer) -> JoinGroupResponse:
    members = []
    for member in answer.members:
        members.append(
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                metadata=member.metadata,
            )
        )
        await give_way()
    protocol_name = answer.protocol_name
    if version < _PROTOCOL_NAME_IS_NULLABLE:
        protocol_name = protocol_name or ""
    return JoinGroupResponse(
        throttle_time=ZERO,
        error_code=answer.error,
        generation_id=answer.generation_id,
        protocol_type=answer.protocol_type,
        protocol_name=protocol_name,
        leader=answer.leader_id,
        skip_assignment=answer.skip_assignment,
        member_id=answer.member_id,
        members=tuple(members),
    )
