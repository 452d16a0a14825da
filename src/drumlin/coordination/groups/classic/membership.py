"""The members of a group: their votes, static ids, leader, and waiting requests.

Bookkeeping only; decisions are in `group.py` and `rebalance.py`. Members are kept in the order in
which they joined or, if static, returned, so that choices among equals are deterministic.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from drumlin.coordination.groups.classic.preferences import Preferences
from drumlin.coordination.groups.every_kind.messages import JoinRequest, Protocols
from drumlin.wire.error_codes import ErrorCode, KafkaError

#: The members examined in one step, which takes some hundredths of a millisecond.
MEMBERS_PER_STEP: Final = 16


@dataclass(slots=True, eq=False)
class Member:
    """One member, and its waiting requests."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    join_waiter: Any = None
    sync_waiter: Any = None
    is_new: bool = False
    """True until the member's first join is answered; until then, the client cannot send
    heartbeats.
    """
    answers_under_way: int = 0
    """The number of answers that are decided but not given yet."""

    @property
    def is_waiting(self) -> bool:
        return self.join_waiter is not None or self.sync_waiter is not None

    def metadata(self, protocol_name: str | None) -> bytes:
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        raise AssertionError(f"{self.member_id} does not support {protocol_name}")


#: A member to be answered, its id at the time of the decision, and the waiter of its request. If
#: the waiter is None, the member has no waiting request, and only its session is extended.
Waiting = tuple[Member, str, Any]


class Membership:
    """The members of one group."""

    def __init__(self) -> None:
        self.members: dict[str, Member] = {}
        self.leader_id: str | None = None
        self.pending_join: set[str] = set()
        """New member ids with which no member has joined yet (KIP-394)."""
        self.pending_sync: set[str] = set()
        """Members of the current generation that have not sent SyncGroup."""
        self.awaiting_join = 0
        """The number of members whose join waits, kept because groups can be large."""
        self._static_ids: dict[str, str] = {}
        self._preferences = Preferences()

    # -- members ---------------------------------------------------------------------------

    def add(self, member: Member) -> None:
        if member.group_instance_id is not None:
            assert member.group_instance_id not in self._static_ids
            self._static_ids[member.group_instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        self._count(member.protocols, 1)
        self.awaiting_join += member.join_waiter is not None
        self.pending_join.discard(member.member_id)

    def remove(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        if member is not None:
            self._count(member.protocols, -1)
            self.awaiting_join -= member.join_waiter is not None
            if member.group_instance_id is not None:
                del self._static_ids[member.group_instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self.pending_join.discard(member_id)
        self.pending_sync.discard(member_id)

    def rename(self, old_id: str, new_id: str) -> Member:
        """Give a static member another id; nothing else changes."""
        renamed = self.members.pop(old_id)
        assert renamed.group_instance_id is not None
        renamed.member_id = new_id
        self._static_ids[renamed.group_instance_id] = new_id
        if self.leader_id == old_id:
            self.leader_id = new_id
        if old_id in self.pending_sync:
            self.pending_sync.remove(old_id)
            self.pending_sync.add(new_id)
        self.members[new_id] = renamed  # moved to the end, as keeping the place is slow
        return renamed

    def update(self, member: Member, request: JoinRequest) -> None:
        """Update a member that rejoins."""
        self.set_protocols(member, request.protocols)
        member.rebalance_timeout_ms = request.rebalance_timeout_ms
        member.session_timeout_ms = request.session_timeout_ms

    def set_protocols(self, member: Member, protocols: Protocols) -> None:
        self._count(protocols, 1)
        self._count(member.protocols, -1)
        member.protocols = protocols

    def take_all(self) -> list[Member]:
        """Remove and return all members, so that the caller can free them a few at a time."""
        taken = list(self.members.values())
        self.members, self._static_ids, self.leader_id = {}, {}, None
        self.pending_join, self.pending_sync, self.awaiting_join = set(), set(), 0
        self._preferences = Preferences()
        return taken

    def static_member_id(self, group_instance_id: str) -> str | None:
        return self._static_ids.get(group_instance_id)

    def validate(self, member_id: str, group_instance_id: str | None) -> Member:
        """The member that a request names.

        Raises:
            KafkaError: UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID if another member has the instance
                id.
        """
        if group_instance_id is not None:
            current_id = self._static_ids.get(group_instance_id)
            if current_id is not None and current_id != member_id:
                raise KafkaError(ErrorCode.fenced_instance_id)
            if current_id is None:
                raise KafkaError(ErrorCode.unknown_member_id)
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(ErrorCode.unknown_member_id)
        return member

    # -- waiting ---------------------------------------------------------------------------

    def set_join_waiter(self, member: Member, waiter: Any) -> Any:
        """Replace the waiter of the member's join (None: no waiter); returns the former waiter."""
        previous = member.join_waiter
        self.awaiting_join += (waiter is not None) - (previous is not None)
        member.join_waiter = waiter
        return previous

    def take_join_waiters(self) -> list[Waiting]:
        """Take the waiters of all members' joins, to be answered."""
        taken = []
        for member_id, member in self.members.items():
            taken.append((member, member_id, member.join_waiter))
            member.join_waiter = None
            member.answers_under_way += 1
        self.awaiting_join = 0
        return taken

    def take_sync_waiters(self) -> list[Waiting]:
        """Take the waiters of all members' syncs, to be answered."""
        taken = []
        for member_id, member in self.members.items():
            if member.sync_waiter is not None:
                taken.append((member, member_id, member.sync_waiter))
                member.sync_waiter = None
                member.answers_under_way += 1
        return taken

    @property
    def all_joined(self) -> bool:
        return self.awaiting_join == len(self.members) and not self.pending_join

    def elect_joined_leader(self) -> bool:
        """Keep the leader if it has joined, else elect a member that has joined. Returns False if
        no member has joined.
        """
        if self.leader_id is None:
            return False
        if self.members[self.leader_id].join_waiter is not None:
            return True
        for member in self.members.values():
            if member.join_waiter is not None:
                self.leader_id = member.member_id
                return True
        return False

    # -- protocols -------------------------------------------------------------------------

    def supported_by_all(self, protocols: Protocols) -> bool:
        """Whether every member supports at least one of the protocols."""
        return bool(self._preferences.common((name for name, _ in protocols), len(self.members)))

    def may_name(self, protocols: Protocols) -> bool:
        """Whether a member may name these protocols: the lists of all members have a size limit."""
        return self._preferences.have_room_for(protocols)

    def elect_protocol(self) -> str:
        """The protocol with the most votes: each member votes for its first protocol that all
        members support.
        """
        return self._preferences.elect(len(self.members))

    def _count(self, protocols: Protocols, difference: int) -> None:
        self._preferences.count(protocols, difference)

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of the members."""
        return max((each.rebalance_timeout_ms for each in self.members.values()), default=0)


def in_steps(members: Iterable[Member]) -> Iterator[Sequence[Member]]:
    """The current members, a few at a time; the caller may yield to the event loop in between."""
    known = list(members)
    for start in range(0, len(known), MEMBERS_PER_STEP):
        yield known[start : start + MEMBERS_PER_STEP]
