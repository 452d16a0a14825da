"""Checks of the requests to a group, without side effects.

`group.py` carries out accepted requests.
"""

from __future__ import annotations

from drumlin.coordination.groups.classic.generation import Generation
from drumlin.coordination.groups.classic.membership import Member, Membership
from drumlin.coordination.groups.every_kind.committer import Committer
from drumlin.coordination.groups.every_kind.messages import NO_MEMBER_ID, JoinRequest, SyncRequest
from drumlin.coordination.groups.every_kind.states import GroupRules, GroupState
from drumlin.wire.error_codes import ErrorCode, KafkaError


class Admission:
    """Checks of the requests to one group."""

    __slots__ = ("_generation", "_membership", "_rules")

    def __init__(self, generation: Generation, membership: Membership, rules: GroupRules) -> None:
        self._generation = generation
        self._membership = membership
        self._rules = rules

    def check_member(
        self, member_id: str, group_instance_id: str | None, generation_id: int
    ) -> Member:
        """The member that sent a request, in the current generation.

        Raises:
            KafkaError: there is no such member, or it has another generation.
        """
        if self._generation.state is GroupState.DEAD:
            raise KafkaError(ErrorCode.coordinator_not_available)
        member = self._membership.validate(member_id, group_instance_id)
        if generation_id != self._generation.id:
            raise KafkaError(ErrorCode.illegal_generation)
        return member

    def check_join(self, request: JoinRequest) -> None:
        """
        Raises:
            KafkaError: GROUP_MAX_SIZE_REACHED, also for a member over the limit that rejoins; or
                another error.
        """
        if self._generation.state is GroupState.DEAD:
            raise KafkaError(ErrorCode.coordinator_not_available)
        if not self._has_room_for(request.member_id, request.group_instance_id):
            raise KafkaError(ErrorCode.group_max_size_reached)
        if self._generation.state is GroupState.EMPTY:
            supported = bool(request.protocol_type and request.protocols)
        else:
            supported = self._generation.protocol_type == request.protocol_type
            supported = supported and self._membership.supported_by_all(request.protocols)
        if not supported or not self._membership.may_name(request.protocols):
            raise KafkaError(ErrorCode.inconsistent_group_protocol)

    def _has_room_for(self, member_id: str, group_instance_id: str | None) -> bool:
        state, size_max = self._generation.state, self._rules.group_max_size
        if state is GroupState.EMPTY:
            return True
        if member_id == NO_MEMBER_ID and group_instance_id is not None:
            # A static member replaces its former self (KAFKA-20601).
            member_id = self._membership.static_member_id(group_instance_id) or NO_MEMBER_ID
        member = self._membership.members.get(member_id)
        if state is GroupState.PREPARING_REBALANCE:
            # If the maximum was lowered below the group's size, the first members to rejoin stay.
            is_joined = member is not None and member.join_waiter is not None
            return is_joined or self._membership.awaiting_join < size_max
        return member is not None or len(self._membership.members) < size_max

    def check_sync(self, request: SyncRequest) -> Member:
        """The member that sent a SyncGroup.

        Raises:
            KafkaError: the member may not sync, or the group's state does not allow it.
        """
        generation = self._generation
        member = self.check_member(
            request.member_id, request.group_instance_id, request.generation_id
        )
        if _differs(request.protocol_type, generation.protocol_type) or (
            _differs(request.protocol_name, generation.protocol_name)
        ):
            raise KafkaError(ErrorCode.inconsistent_group_protocol)
        if generation.state is GroupState.PREPARING_REBALANCE:
            raise KafkaError(ErrorCode.rebalance_in_progress)
        return member

    def check_offset_commit(self, committer: Committer) -> None:
        """
        Raises:
            KafkaError: the committer may not commit offsets.
        """
        member_id, generation_id = committer.member_id, committer.generation_id
        group_instance_id, state = committer.group_instance_id, self._generation.state
        if state is GroupState.DEAD:
            raise KafkaError(ErrorCode.coordinator_not_available)
        if generation_id < 0 and state is GroupState.EMPTY:
            return  # a consumer that assigns its own partitions, or an administrator
        if generation_id < 0 and not member_id and group_instance_id is None:
            if committer.is_transactional:
                return  # the first versions of the request do not name the member
            raise KafkaError(ErrorCode.unknown_member_id)
        self.check_member(member_id, group_instance_id, generation_id)
        if state is GroupState.COMPLETING_REBALANCE and not committer.is_transactional:
            raise KafkaError(ErrorCode.rebalance_in_progress)


def _differs(asked: str | None, actual: str | None) -> bool:
    """Whether the protocols differ. None means unknown: older clients name no protocol, and a group
    has none before the election.
    """
    return asked is not None and actual is not None and asked != actual
