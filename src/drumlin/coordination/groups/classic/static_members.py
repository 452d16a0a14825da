"""Static members that come back, each into its own place in a classic group (KIP-345).

A member that comes back has its new id at once; a record follows later, which may be one made for
another member. If its own cannot be written, the member is again as the log has it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from drumlin.coordination.groups.classic.lifecycle import GroupLifecycle
from drumlin.coordination.groups.classic.membership import Member
from drumlin.coordination.groups.classic.messages import (
    NO_MEMBER_ID,
    JoinAnswer,
    JoinRequest,
    Protocols,
    StaticMemberReplaced,
    Store,
    SyncAnswer,
)
from drumlin.coordination.groups.classic.records import GroupMetadata
from drumlin.coordination.groups.classic.states import DeadlineKind, GroupState
from drumlin.wire.errors import ErrorCode


class _Former(NamedTuple):
    """A static member before it came back."""

    member_id: str
    protocols: Protocols
    rebalance_timeout_ms: int
    session_timeout_ms: int


class StaticMembers(GroupLifecycle):
    """How static members come back, and which of their ids are in the log."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._ahead_of_log: dict[str, list[_Former]] = {}
        """By instance id, what the log says that the member is, and all that it was since then."""

    def _replace_static_member(
        self, request: JoinRequest, old_id: str, new_id: str, waiter: Any
    ) -> None:
        """A static member that comes back takes its own place; its former self is fenced.

        A stable group is not disturbed as long as its protocol stays the same.
        """
        member = self.membership.members[old_id]
        self._answer_join(member, JoinAnswer(ErrorCode.fenced_instance_id, old_id))
        self._answer_sync(member, SyncAnswer(ErrorCode.fenced_instance_id))
        former = _Former(
            old_id, member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms
        )
        self._cancel(DeadlineKind.SESSION, old_id)
        self.membership.rename(old_id, new_id)
        member.is_new = False
        self._update_member(member, request, waiter)
        self._extend_session(member)
        if self.state is GroupState.COMPLETING_REBALANCE:
            # The leader may know the former id: what it assigns to that would be lost.
            self._prepare_rebalance(f"static member {new_id} joins: {request.reason}")
        elif self.state is GroupState.STABLE and (
            self.protocol_name == self.membership.elect_protocol()
        ):
            assert member.group_instance_id is not None
            self._ahead_of_log.setdefault(member.group_instance_id, []).append(former)
            purpose = StaticMemberReplaced(old_id, new_id, request.can_skip_assignment)
            self._effects.append(Store(purpose))
        else:
            self._rebalance_or_complete_join(f"static member {new_id} joins: {request.reason}")

    def _update_member(self, member: Member, request: JoinRequest, waiter: Any) -> None:
        self.membership.set_protocols(member, request.protocols)
        member.rebalance_timeout_ms = request.rebalance_timeout_ms
        member.session_timeout_ms = request.session_timeout_ms
        self._answer_join(member, JoinAnswer(ErrorCode.rebalance_in_progress, member.member_id))
        self.membership.set_join_waiter(member, waiter)

    def _note_in_log(self, metadata: GroupMetadata) -> None:
        """A record says which of their ids static members had when it was made."""
        if not self._ahead_of_log:
            return
        logged = {each.member_id for each in metadata.members}
        for instance_id, formers in list(self._ahead_of_log.items()):
            while formers and formers[0].member_id not in logged:
                del formers[0]
            if not formers:
                del self._ahead_of_log[instance_id]

    def _complete_replacement(
        self, member: Member, purpose: StaticMemberReplaced, error: ErrorCode | None
    ) -> None:
        if error is not None:
            self._answer_join(member, JoinAnswer(error, NO_MEMBER_ID))
            self._become_as_logged(member)
            return
        is_leader = member.member_id == self.membership.leader_id
        self._extend_session(member)  # it may have run out unnoticed while this was stored
        if purpose.can_skip_assignment:
            # KIP-814: a leader is shown the members, and told that their assignment stands.
            answer = self._join_answer(member.member_id, skip_assignment=is_leader)
            if is_leader:
                self._tell_leader(self.membership.set_join_waiter(member, None), answer)
            else:
                self._answer_join(member, answer)
        else:
            # Older clients hear that the former id leads: they fetch what is assigned to them.
            leader_id = purpose.former_id if is_leader else None
            answer = self._join_answer(member.member_id, leader_id=leader_id)
            self._answer_join(member, answer)

    def _become_as_logged(self, member: Member) -> None:
        formers = self._ahead_of_log.pop(member.group_instance_id or "", None)
        if formers is not None:  # else the log knows its new id
            former = formers[0]
            self._cancel(DeadlineKind.SESSION, member.member_id)
            self.membership.set_protocols(member, former.protocols)
            member.rebalance_timeout_ms = former.rebalance_timeout_ms
            member.session_timeout_ms = former.session_timeout_ms
            self.membership.rename(member.member_id, former.member_id)
        self._extend_session(member)
