"""LeaveGroup (key 13), versions 0-5: members leave without waiting for their session to end.

- Up to version 2 one member leaves, and its error is the response's.
- From version 3 several do (KIP-345), static ones by their instance id alone if need be; each
  has its own error. From version 5 they say why (KIP-800).
"""

from __future__ import annotations

from typing import Any, Final

from drumlin.broker.context import RequestContext, Waiting
from drumlin.coordination.groups.classic.messages import LeavingMember
from drumlin.coordination.written import Pending
from drumlin.turns import Pace
from drumlin.wire.errors import ErrorCode, KafkaError
from drumlin.wire.messages import ZERO, Shape

#: More do not leave in one turn of the loop.
_LEAVING_TOGETHER: Final = 500


def handle(context: RequestContext, request: Any, shape: Shape) -> Any:
    leaving = _leaving(request, shape)
    if len(leaving) > _LEAVING_TOGETHER:
        return _leave_in_pieces(context, request.group_id, shape, leaving)
    try:
        answer = context.broker.groups.leave(request.group_id, leaving)
    except KafkaError as error:
        return _response(shape, leaving, [], error.code)
    if answer.done():
        return _response(shape, leaving, answer.result(), ErrorCode.none)
    return Waiting(_respond(shape, leaving, answer))


async def _leave_in_pieces(
    context: RequestContext, group_id: str, shape: Shape, leaving: list[LeavingMember]
) -> Any:
    codes: list[ErrorCode] = []
    pace = Pace()
    try:
        for first in range(0, len(leaving), _LEAVING_TOGETHER):
            piece = leaving[first : first + _LEAVING_TOGETHER]
            codes += await context.broker.groups.leave(group_id, piece)
            await pace.give_way()
    except KafkaError as error:
        return _response(shape, leaving, [], error.code)
    return _response(shape, leaving, codes, ErrorCode.none)


async def _respond(
    shape: Shape, leaving: list[LeavingMember], answer: Pending[list[ErrorCode]]
) -> Any:
    try:
        return _response(shape, leaving, await answer, ErrorCode.none)
    except KafkaError as error:
        return _response(shape, leaving, [], error.code)


def _leaving(request: Any, shape: Shape) -> list[LeavingMember]:
    if not shape.has("MemberResponse"):
        return [LeavingMember(request.member_id)]
    return [
        LeavingMember(each.member_id, each.group_instance_id, getattr(each, "reason", None))
        for each in request.members
    ]


def _response(
    shape: Shape, leaving: list[LeavingMember], codes: list[ErrorCode], code: ErrorCode
) -> Any:
    has_several = shape.has("MemberResponse")
    if not has_several and codes:
        code = codes[0]
    members = tuple(
        shape(
            "MemberResponse",
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            error_code=member_code,
        )
        for member, member_code in zip(leaving, codes, strict=False)
        if has_several
    )
    return shape("LeaveGroupResponse", throttle_time=ZERO, error_code=code, members=members)
