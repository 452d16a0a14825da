"""Static members that come back under a new id, and their former state in the log (KIP-345).

A member that comes back has its new id at once. The record with the new id is written later,
perhaps because of another member. If that write fails, the member reverts to its state in the log.
This file only changes the list of members; it answers no member and begins no rebalance.
"""

from __future__ import annotations

from typing import NamedTuple

from drumlin.coordination.groups.classic.membership import Member, Membership
from drumlin.coordination.groups.classic.records import GroupMetadata
from drumlin.coordination.groups.every_kind.messages import JoinRequest, Protocols


class Former(NamedTuple):
    """The state of a static member before it came back."""

    member_id: str
    protocols: Protocols
    rebalance_timeout_ms: int
    session_timeout_ms: int


class StaticMembers:
    """The static members of one group whose current ids are not in the log yet."""

    __slots__ = ("_ahead_of_log", "_membership")

    def __init__(self, membership: Membership) -> None:
        self._membership = membership
        self._ahead_of_log: dict[str, list[Former]] = {}
        """Instance id -> the member's state in the log, and its later states, oldest first."""

    def come_back(self, member: Member, request: JoinRequest, new_id: str) -> Former:
        """Give a returning member a new id; returns its former state."""
        former = Former(
            member.member_id,
            member.protocols,
            member.rebalance_timeout_ms,
            member.session_timeout_ms,
        )
        self._membership.rename(former.member_id, new_id)
        member.is_new = False
        self._membership.update(member, request)
        return former

    def put_ahead_of_log(self, member: Member, former: Former) -> None:
        """Remember the member's state in the log until a record has its new id."""
        assert member.group_instance_id is not None
        self._ahead_of_log.setdefault(member.group_instance_id, []).append(former)

    def in_log(self, metadata: GroupMetadata) -> None:
        """Forget former states that are older than this record, which has later ids."""
        if not self._ahead_of_log:
            return
        logged = {each.member_id for each in metadata.members}
        for instance_id, formers in list(self._ahead_of_log.items()):
            while formers and formers[0].member_id not in logged:
                del formers[0]
            if not formers:
                del self._ahead_of_log[instance_id]

    def become_as_logged(self, member: Member) -> None:
        """Revert the member to its state in the log; do nothing if the log has the new id."""
        formers = self._ahead_of_log.pop(member.group_instance_id or "", None)
        if formers is not None:
            former = formers[0]
            self._membership.set_protocols(member, former.protocols)
            member.rebalance_timeout_ms = former.rebalance_timeout_ms
            member.session_timeout_ms = former.session_timeout_ms
            self._membership.rename(member.member_id, former.member_id)
