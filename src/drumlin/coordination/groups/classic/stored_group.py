"""The record of a group: content, members, and whether the record must still be written.

Reads the group, but never changes the group.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from drumlin.coordination.groups.classic.generation import Generation
from drumlin.coordination.groups.classic.membership import Member, Membership, in_steps
from drumlin.coordination.groups.classic.records import GroupMetadata, MemberMetadata
from drumlin.coordination.groups.every_kind.messages import (
    Assigned,
    Created,
    Purpose,
    StaticMemberReplaced,
)
from drumlin.coordination.groups.every_kind.states import GroupState
from drumlin.turns import give_way


class StoredGroup:
    """The record of one group, to be written."""

    __slots__ = ("_generation", "_membership")

    def __init__(self, generation: Generation, membership: Membership) -> None:
        self._generation = generation
        self._membership = membership

    def awaits(self, purpose: Purpose) -> bool:
        """Whether the record must still be written; if not, no request waits for the write."""
        state = self._generation.state
        if isinstance(purpose, Assigned):
            # If members have joined or left meanwhile, this generation has ended.
            is_current = purpose.generation_id == self._generation.id
            return is_current and state is GroupState.COMPLETING_REBALANCE
        if isinstance(purpose, StaticMemberReplaced):
            # If a rebalance has begun, it will answer the member.
            member = self._membership.members.get(purpose.new_member_id)
            is_waiting = member is not None and member.join_waiter is not None
            return is_waiting and state is GroupState.STABLE
        return isinstance(purpose, Created) or state is GroupState.EMPTY

    async def metadata(self, purpose: Purpose) -> GroupMetadata | None:
        """The group's record; None if the group no longer awaits the record."""
        generation = self._generation
        if isinstance(purpose, Created):
            return GroupMetadata(None, 0, None, None, generation.state_timestamp_ms, ())
        assigned = None
        if isinstance(purpose, Assigned):
            assigned = purpose.assignments
            for member_id, assignment in purpose.asked:
                if member_id in self._membership.members:
                    assigned[member_id] = assignment
                await give_way()
        stored = list[MemberMetadata]()
        for some in in_steps(self._membership.members.values()):
            if not self.awaits(purpose):
                return None
            stored += [self._member(each, assigned) for each in some]
            await give_way()
        if not self.awaits(purpose):
            return None
        return GroupMetadata(
            generation.protocol_type,
            generation.id,
            generation.protocol_name,
            self._membership.leader_id,
            generation.state_timestamp_ms,
            tuple(stored),
        )

    def _member(self, member: Member, assigned: Mapping[str, bytes] | None) -> MemberMetadata:
        """A member's metadata; `assigned`: assignments that have not taken effect yet."""
        known = member.assignment if assigned is None else assigned.get(member.member_id, b"")
        return MemberMetadata(
            member.member_id,
            member.group_instance_id,
            member.client_id,
            member.client_host,
            member.rebalance_timeout_ms,
            member.session_timeout_ms,
            member.metadata(self._generation.protocol_name),
            known,
        )


def members_of(metadata: GroupMetadata) -> Iterator[Member]:
    """A record's members, each with only the protocol in use, as the record has no others."""
    for each in metadata.members:
        yield Member(
            each.member_id,
            each.group_instance_id,
            each.client_id,
            each.client_host,
            each.rebalance_timeout_ms,
            each.session_timeout_ms,
            ((metadata.protocol_name or "", each.subscription),),
            each.assignment,
        )
