"""DescribeGroups (key 15), versions 0-6: state and members of groups.

- Members' metadata, for the chosen protocol, is shown only if the group is stable.
- A group that does not exist is "Dead", without an error, or from version 6 with
  GROUP_ID_NOT_FOUND.
- From version 3 the client may ask for its authorized operations.
"""

from __future__ import annotations

from typing import Final

from drumlin.broker.context import RequestContext
from drumlin.broker.parts.cluster_view import OPERATIONS_NOT_ASKED
from drumlin.broker.rights.acls import Kind, Operation
from drumlin.broker.several_apis.group_descriptions import authorized_operations
from drumlin.coordination.groups.classic.group import Group
from drumlin.coordination.groups.classic.membership import Member
from drumlin.coordination.groups.every_kind.states import GroupState
from drumlin.distinct import each_once
from drumlin.turns import give_way
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.messages import ZERO
from drumlin.wire.protocol.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

_NOT_FOUND_IS_AN_ERROR: Final = 6
#: Attempts for a group that changes meanwhile; after the last attempt members may be inconsistent.
_TRIES: Final = 3


async def handle(context: RequestContext, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
    groups = await each_once(request.groups, lambda group_id: _describe(context, request, group_id))
    return DescribeGroupsResponse(throttle_time=ZERO, groups=tuple(groups))


async def _describe(
    context: RequestContext,
    request: DescribeGroupsRequest,
    group_id: str,
    tries_left: int = _TRIES,
) -> DescribedGroup:
    try:
        context.require(Operation.DESCRIBE, Kind.GROUP, group_id)
        group = context.broker.groups.classic_group(group_id)
    except KafkaError as error:
        if error.code is not ErrorCode.group_id_not_found:
            return _described(group_id, "", error_code=error.code)
        if context.version < _NOT_FOUND_IS_AN_ERROR:
            operations = authorized_operations(context, request, group_id)
            dead = GroupState.DEAD.value
            return _described(group_id, dead, authorized_operations=operations)
        return _described(
            group_id,
            GroupState.DEAD.value,
            error_code=error.code,
            error_message=error.message,
        )
    was = group.state, group.generation_id
    members = await _members(group)
    if tries_left and was != (group.state, group.generation_id):
        again = await _describe(context, request, group_id, tries_left - 1)
        return again
    is_stable = group.state is GroupState.STABLE
    return _described(
        group_id,
        group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol_name or "") if is_stable else "",
        members=members,
        authorized_operations=authorized_operations(context, request, group_id),
    )


def _described(
    group_id: str,
    state: str,
    *,
    error_code: ErrorCode = ErrorCode.none,
    error_message: str | None = None,
    protocol_type: str = "",
    protocol_data: str = "",
    members: tuple[DescribedGroupMember, ...] = (),
    authorized_operations: int = OPERATIONS_NOT_ASKED,
) -> DescribedGroup:
    return DescribedGroup(
        group_id=group_id,
        group_state=state,
        error_code=error_code,
        error_message=error_message,
        protocol_type=protocol_type,
        protocol_data=protocol_data,
        members=members,
        authorized_operations=authorized_operations,
    )


async def _members(group: Group) -> tuple[DescribedGroupMember, ...]:
    members = []
    for member in list(group.membership.members.values()):
        members.append(_member(group, member))
        await give_way()
    return tuple(members)


def _member(group: Group, member: Member) -> DescribedGroupMember:
    # A member that has left meanwhile may not support the protocol that the group uses now.
    is_stable = group.state is GroupState.STABLE and member.member_id in group.membership.members
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=member.metadata(group.protocol_name) if is_stable else b"",
        member_assignment=member.assignment,
    )
