"""LeaveGroup (key 13), versions 0-5: members leave without waiting for their session to end.

- Up to version 2 one member leaves, and its error is the response's.
- From version 3 several may leave (KIP-345), each with its own error; a static member needs only
  its instance id. From version 5 members give a reason (KIP-800).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from drumlin.broker.context import RequestContext
from drumlin.broker.loop.later import Later, waiting
from drumlin.broker.rights.acls import Kind, Operation
from drumlin.broker.rights.denials import DENIED
from drumlin.coordination.groups.every_kind.messages import LeavingMember
from drumlin.coordination.shards.pending_answer import Pending
from drumlin.turns import give_way
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.messages import ZERO
from drumlin.wire.protocol.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)

_SEVERAL_FROM: Final = 3
#: Members that leave in one turn of the loop: each may support a hundred protocols.
_LEAVING_TOGETHER: Final = 50


async def handle(
    context: RequestContext, request: LeaveGroupRequest
) -> LeaveGroupResponse | Later[LeaveGroupResponse]:
    if not context.may(Operation.READ, Kind.GROUP, request.group_id):
        return _response(context.version, [], [], DENIED[Kind.GROUP])
    if request.members is None:
        leaving = [LeavingMember(request.member_id)]
    elif len(request.members) > _LEAVING_TOGETHER:
        return await _leave_in_pieces(context, request.group_id, request.members)
    else:
        leaving = _members(request.members)
    try:
        answer = context.broker.groups.leave(request.group_id, leaving)
    except KafkaError as error:
        return _response(context.version, leaving, [], error.code)
    return waiting(_respond(context.version, leaving, answer))


async def _leave_in_pieces(
    context: RequestContext, group_id: str, members: Sequence[MemberIdentity]
) -> LeaveGroupResponse:
    responses: list[MemberResponse] = []
    code = ErrorCode.none
    try:
        for first in range(0, len(members), _LEAVING_TOGETHER):
            leaving = _members(members[first : first + _LEAVING_TOGETHER])
            codes = await context.broker.groups.leave(group_id, leaving)
            responses += _member_responses(leaving, codes)
            await give_way()
    except KafkaError as error:
        responses, code = [], error.code
    return LeaveGroupResponse(throttle_time=ZERO, error_code=code, members=tuple(responses))


async def _respond(
    version: int, leaving: list[LeavingMember], answer: Pending[list[ErrorCode]]
) -> LeaveGroupResponse:
    try:
        return _response(version, leaving, await answer, ErrorCode.none)
    except KafkaError as error:
        return _response(version, leaving, [], error.code)


def _members(members: Iterable[MemberIdentity]) -> list[LeavingMember]:
    return [LeavingMember(each.member_id, each.group_instance_id, each.reason) for each in members]


def _response(
    version: int, leaving: list[LeavingMember], codes: list[ErrorCode], code: ErrorCode
) -> LeaveGroupResponse:
    has_several = version >= _SEVERAL_FROM
    if not has_several and codes:
        code = codes[0]
    members = tuple(_member_responses(leaving, codes)) if has_several else ()
    return LeaveGroupResponse(throttle_time=ZERO, error_code=code, members=members)


def _member_responses(
    leaving: list[LeavingMember], codes: list[ErrorCode]
) -> Iterator[MemberResponse]:
    for member, code in zip(leaving, codes, strict=False):
        yield MemberResponse(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            error_code=code,
        )
