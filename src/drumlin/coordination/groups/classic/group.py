"""One group of the classic protocol: a state machine that never awaits.

The input is requests, expired deadlines and the outcomes of writes. The output is answers, and
metadata to write, as a list of effects that the caller must carry out in order. The caller also
provides the clock and the deadline queue, and calls `expire` when a deadline has passed.

    Empty --join--> PreparingRebalance --all joined, or time--> CompletingRebalance
      ^               |      ^     ^                              |         |
      '--no members---'      |     '---member joins, leaves, dies-'         |
                             |                                              |
                             '------------- Stable <--leader's assignment---'

This file handles each request with the group's parts, which do not refer to the group:
`membership.py` (the members), `generation.py` (the generation), `rebalance.py` (the steps to the
next generation), `static_members.py` (static members that return), `admission.py` (checks of
requests), `effects.py` (answers and writes), `stored_group.py` (the group's record). Comments on
rules that are easy to miss name the KIP.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

from drumlin.clock import Clock
from drumlin.coordination.deadlines import DeadlineQueue
from drumlin.coordination.groups.classic.admission import Admission
from drumlin.coordination.groups.classic.effects import Effects
from drumlin.coordination.groups.classic.generation import Generation
from drumlin.coordination.groups.classic.membership import Member, Membership
from drumlin.coordination.groups.classic.rebalance import Rebalance
from drumlin.coordination.groups.classic.records import GroupKey, GroupMetadata
from drumlin.coordination.groups.classic.static_members import StaticMembers
from drumlin.coordination.groups.classic.stored_group import StoredGroup, members_of
from drumlin.coordination.groups.classic.subscription import CONSUMER_PROTOCOL_TYPE
from drumlin.coordination.groups.classic.timers import Timers
from drumlin.coordination.groups.every_kind.committer import Committer
from drumlin.coordination.groups.every_kind.group_record import GroupRecord, RecordKey
from drumlin.coordination.groups.every_kind.kind import GroupKind
from drumlin.coordination.groups.every_kind.messages import (
    NO_MEMBER_ID,
    Assigned,
    Created,
    Effect,
    Emptied,
    JoinAnswer,
    JoinRequest,
    LeavingMember,
    Protocols,
    Purpose,
    StaticMemberReplaced,
    Store,
    SyncAnswer,
    SyncRequest,
)
from drumlin.coordination.groups.every_kind.states import (
    NEW_MEMBER_JOIN_TIMEOUT_MS,
    Deadline,
    DeadlineKind,
    GroupRules,
    GroupState,
)
from drumlin.turns import give_way
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.schema.types import STRING_BYTES_MAX, beginning

#: The maximum size of the client id or instance id in a member id, before the UUID.
_OWNER_BYTES_MAX: Final = STRING_BYTES_MAX - len("-") - 36


class Group:
    """A group, its generation, and its waiting requests."""

    def __init__(
        self,
        group_id: str,
        rules: GroupRules,
        clock: Clock,
        deadlines: DeadlineQueue[Deadline],
        new_id: Callable[[], str],
    ) -> None:
        self.group_id = group_id
        self.membership = Membership()
        self.records_in_log = 0
        """The number of records written since the group was created or loaded here."""
        self.stores_under_way = 0
        """The number of records that are being created over several turns."""
        self.replacements: list[Store] = []
        """Static members that have come back, whose new ids go into the next record."""
        self.stays_classic_from: float = math.inf
        """With this many members or more, the records of an upgrade do not fit into one batch."""
        self._rules = rules
        self._new_id = new_id
        self._timers = Timers(group_id, clock, deadlines)
        self._generation = Generation(group_id, self.membership, clock)
        self._effects = Effects(self._generation, self.membership, self._timers)
        self._rebalance = Rebalance(
            self._generation, self.membership, self._timers, self._effects, rules
        )
        self._static_members = StaticMembers(self.membership)
        self._admission = Admission(self._generation, self.membership, rules)
        self._stored_group = StoredGroup(self._generation, self.membership)

    # -- life ------------------------------------------------------------------------------

    async def restore(self, records: Iterable[tuple[RecordKey, Any]]) -> None:
        """Restore the group from its single record."""
        for _, metadata in records:
            await self.restore_metadata(metadata)

    async def restore_metadata(self, metadata: GroupMetadata) -> None:
        """Restore an empty or a stable group from its record; yields after each member.

        Restarts the members' sessions.
        """
        for member in members_of(metadata):
            self.membership.add(member)
            self._timers.extend_session(member)
            await give_way()
        if metadata.leader_id in self.membership.members:
            self.membership.leader_id = metadata.leader_id
        await self._generation.restore(metadata)
        if len(self.membership.members) > self._rules.group_max_size:
            self._rebalance.prepare("it was loaded with more members than are allowed now")

    async def take_over_protocols(self, protocols: Mapping[str, Protocols]) -> None:
        """Set the protocols of the members of a converted consumer group."""
        for member_id, supported in protocols.items():
            self.membership.set_protocols(self.membership.members[member_id], supported)
            await give_way()

    def rebalance(self, reason: str) -> list[Effect]:
        """Let all members of a converted consumer group join again."""
        self._rebalance.prepare(reason)
        return self._effects.take()

    def replay(self, key: RecordKey, value: Any | None) -> None:
        """Do nothing: the group already has the record's content, and `stored` confirms it."""

    def expire(self, deadline: Deadline) -> list[Effect]:
        """Handle a deadline of this group that has passed."""
        if self.state is not GroupState.DEAD:
            self._rebalance.expire(deadline)
        return self._effects.take()

    def unload(self, error: ErrorCode = ErrorCode.not_coordinator) -> list[Effect]:
        """End all waiting requests: the group has moved to another broker, or was removed."""
        self._die(error)
        return self._effects.take()

    async def dissolve(self) -> list[Any]:
        await give_way()  # deadlines stay until they expire: see `_die`
        return self.membership.take_all()  # `unload` lets waiting members be answered later

    def _die(self, error: ErrorCode) -> None:
        if self.state is not GroupState.DEAD:
            self._generation.transition_to(GroupState.DEAD)
            self._rebalance.cancel()
            # Session deadlines stay until they expire. By then this group no longer exists, or a
            # new one has set its own.
            self._effects.refuse_all(error)

    # -- requests --------------------------------------------------------------------------

    def join(self, request: JoinRequest, waiter: Any) -> list[Effect]:
        """Let a member join: refuse it at once, or answer when the next generation begins."""
        try:
            self._admission.check_join(request)
            if request.member_id == NO_MEMBER_ID:
                self._join_as_new(request, waiter)
            elif request.member_id in self.membership.pending_join:
                self._add_member(request, request.member_id, waiter)
            else:
                self._join_again(request, waiter)
        except KafkaError as refusal:
            if refusal.code is ErrorCode.group_max_size_reached:
                self.membership.remove(request.member_id)
                self._effects.answer(waiter, JoinAnswer(refusal.code, NO_MEMBER_ID))
                self._rebalance.complete_join_if_all_joined()  # perhaps only this one was missing
            else:
                self._effects.answer(waiter, JoinAnswer(refusal.code, request.member_id))
        return self._effects.take()

    def sync(self, request: SyncRequest, waiter: Any) -> list[Effect]:
        """Handle a SyncGroup of a member; the leader's request has all assignments."""
        try:
            member = self._admission.check_sync(request)
        except KafkaError as refusal:
            self._effects.answer(waiter, SyncAnswer(refusal.code))
            return self._effects.take()
        self._rebalance.synced(member)
        if self._generation.state is GroupState.STABLE:
            self._effects.answer(waiter, self._generation.sync_answer(member.assignment))
            return self._effects.take()
        self._effects.let_sync_wait(member, waiter)
        if member.member_id == self.membership.leader_id:
            self._rebalance.assign(request.assignments)
        return self._effects.take()

    def heartbeat(self, member_id: str, group_instance_id: str | None, generation_id: int) -> None:
        """Handle a heartbeat of a member.

        Raises:
            KafkaError: the client must rejoin, or is not a member.
        """
        member = self._admission.check_member(member_id, group_instance_id, generation_id)
        self._timers.extend_session(member)
        if self._generation.state is GroupState.PREPARING_REBALANCE:
            raise KafkaError(ErrorCode.rebalance_in_progress)

    def leave(self, leaving: Sequence[LeavingMember]) -> tuple[list[ErrorCode], list[Effect]]:
        """Let members leave; returns an error code for each member, in order."""
        codes = [self._leave_one(each) for each in leaving]
        if ErrorCode.none in codes:
            reasons = (each.reason for each in leaving if each.reason)
            self._rebalance.left(f"members left: {', '.join(reasons)}")
        return codes, self._effects.take()

    def note_commit(self, committer: Committer) -> None:
        """Count a member's commit as a heartbeat, unless it is in a transaction."""
        member = self.membership.members.get(committer.member_id)
        if member is not None and not committer.is_transactional:
            self._timers.extend_session(member)

    # -- joining and leaving ---------------------------------------------------------------

    def _join_as_new(self, request: JoinRequest, waiter: Any) -> None:
        instance_id = request.group_instance_id
        owner = request.client_id if instance_id is None else instance_id
        member_id = f"{beginning(owner, _OWNER_BYTES_MAX)}-{self._new_id()}"
        if instance_id is not None:
            current_id = self.membership.static_member_id(instance_id)
            if current_id is None:
                self._add_member(request, member_id, waiter)
            else:
                former_self = self.membership.members[current_id]
                self._take_back(former_self, request, member_id, waiter)
        elif request.requires_known_member_id:
            # KIP-394: the client must join with its new id, so a lost answer leaves no dead member.
            self.membership.pending_join.add(member_id)
            self._timers.schedule(DeadlineKind.SESSION, request.session_timeout_ms, member_id)
            self._effects.answer(waiter, JoinAnswer(ErrorCode.member_id_required, member_id))
        else:
            self._add_member(request, member_id, waiter)

    def _join_again(self, request: JoinRequest, waiter: Any) -> None:
        member = self.membership.validate(request.member_id, request.group_instance_id)
        is_unchanged = member.protocols == request.protocols
        is_leader = member.member_id == self.membership.leader_id
        state = self._generation.state
        if state is GroupState.COMPLETING_REBALANCE and is_unchanged:
            # The answer to the member was lost: send the same one again.
            answer = self._effects.answer_leader if is_leader else self._effects.answer
            answer(waiter, self._generation.join_answer(member.member_id))
        elif state is GroupState.STABLE and is_unchanged and not is_leader:
            self._effects.answer(waiter, self._generation.join_answer(member.member_id))
        else:
            # The leader of a stable group rejoins when it notices a change, e.g. of topics.
            self.membership.update(member, request)
            self._effects.let_join_wait(member, waiter)
            self._rebalance.joined(f"{member.member_id} rejoins: {request.reason}")

    def _add_member(self, request: JoinRequest, member_id: str, waiter: Any) -> None:
        member = Member(
            member_id,
            request.group_instance_id,
            request.client_id,
            request.client_host,
            request.rebalance_timeout_ms,
            request.session_timeout_ms,
            request.protocols,
            join_waiter=waiter,
            is_new=True,
        )
        if not self.membership.members:
            self._generation.protocol_type = request.protocol_type
        self._rebalance.add(member)
        self._timers.schedule(DeadlineKind.SESSION, NEW_MEMBER_JOIN_TIMEOUT_MS, member_id)
        self._rebalance.joined(f"{member_id} joins: {request.reason}")

    def _leave_one(self, leaving: LeavingMember) -> ErrorCode:
        member_id, instance_id, _ = leaving
        if self.state is GroupState.DEAD:
            return ErrorCode.coordinator_not_available
        if member_id in self.membership.pending_join:
            self.membership.remove(member_id)
            self._timers.cancel(DeadlineKind.SESSION, member_id)
            return ErrorCode.none
        if member_id == NO_MEMBER_ID and instance_id is not None:
            # An administrator removes a static member by its instance id alone.
            member_id = self.membership.static_member_id(instance_id) or NO_MEMBER_ID
        try:
            self._rebalance.remove(self.membership.validate(member_id, instance_id))
        except KafkaError as refusal:
            return refusal.code
        return ErrorCode.none

    # -- static members that come back -------------------------------------------------------

    def _take_back(self, member: Member, request: JoinRequest, new_id: str, waiter: Any) -> None:
        """Let a returning static member replace its former member id, which is fenced.

        A stable group does not rebalance if its protocol stays the same.
        """
        old_id = member.member_id
        self._effects.answer_join(member, JoinAnswer(ErrorCode.fenced_instance_id, old_id))
        self._effects.answer_sync(member, SyncAnswer(ErrorCode.fenced_instance_id))
        self._timers.cancel(DeadlineKind.SESSION, old_id)
        former = self._static_members.come_back(member, request, new_id)
        self._effects.let_join_wait(member, waiter)
        self._timers.extend_session(member)
        reason = f"static member {new_id} joins: {request.reason}"
        if self.state is GroupState.COMPLETING_REBALANCE:
            # The leader may be assigning partitions to the former id; that assignment would be
            # lost.
            self._rebalance.prepare(reason)
        elif self.state is GroupState.STABLE and (
            self.protocol_name == self.membership.elect_protocol()
        ):
            self._static_members.put_ahead_of_log(member, former)
            purpose = StaticMemberReplaced(old_id, new_id, request.can_skip_assignment)
            self._effects.store(purpose)
        else:
            self._rebalance.joined(reason)

    def _complete_return(self, purpose: StaticMemberReplaced, error: ErrorCode | None) -> None:
        """Handle the outcome of writing the record with a static member's new id."""
        member = self.membership.members[purpose.new_member_id]
        if error is not None:
            self._effects.answer_join(member, JoinAnswer(error, NO_MEMBER_ID))
            self._timers.cancel(DeadlineKind.SESSION, member.member_id)
            self._static_members.become_as_logged(member)
            self._timers.extend_session(member)
            return
        is_leader = member.member_id == self.membership.leader_id
        self._timers.extend_session(member)  # the session may have expired during the write
        if not purpose.can_skip_assignment:
            # Older clients get the former id as the leader's, so that they only send SyncGroup.
            leader_id = purpose.former_id if is_leader else None
            answer = self._generation.join_answer(member.member_id, leader_id=leader_id)
            self._effects.answer_join(member, answer)
            return
        # KIP-814: a leader gets the list of members, with the flag to skip the assignment.
        answer = self._generation.join_answer(member.member_id, skip_assignment=is_leader)
        if is_leader:
            self._effects.answer_leader(self.membership.set_join_waiter(member, None), answer)
        else:
            self._effects.answer_join(member, answer)

    # -- records, and their outcomes ---------------------------------------------------------

    def awaits(self, purpose: Purpose) -> bool:
        """Whether the record must still be written; if not, no request waits for the write."""
        return self._stored_group.awaits(purpose)

    def to_store(self, purpose: Purpose) -> Coroutine[Any, Any, GroupMetadata | None]:
        """The group's record; None if the group no longer awaits the record."""
        return self._stored_group.metadata(purpose)

    def in_log(self, metadata: GroupMetadata) -> None:
        """React to the append of the record; `stored` is called with the outcome later."""
        self.records_in_log += 1
        self._static_members.in_log(metadata)

    def stored(self, store: Store, error: ErrorCode | None) -> list[Effect]:
        """Handle the outcome of a `Store`: `error` is the code for clients, or None for success.

        Despite an error, the record may be in the log: the confirmation may only have been late.
        """
        purpose = store.purpose
        if not self.awaits(purpose):
            return []
        if isinstance(purpose, Assigned):
            self._rebalance.assignment_stored(purpose.assignments, error)
        elif isinstance(purpose, StaticMemberReplaced):
            self._complete_return(purpose, error)
        elif isinstance(purpose, Created) and error is not None and not self.records_in_log:
            self._die(error)
        elif isinstance(purpose, Emptied) and error is not None:
            self._rebalance.empty_again()
        return self._effects.take()

    # -- reading ---------------------------------------------------------------------------

    @property
    def kind(self) -> GroupKind:
        return GroupKind.CLASSIC

    @property
    def state(self) -> GroupState:
        return self._generation.state

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def generation_id(self) -> int:
        return self._generation.id

    @property
    def protocol_type(self) -> str | None:
        return self._generation.protocol_type

    @property
    def protocol_name(self) -> str | None:
        return self._generation.protocol_name

    @property
    def is_deletable(self) -> bool:
        return self.state is GroupState.EMPTY and not self.membership.pending_join

    def tombstones(self) -> list[GroupRecord]:
        return [(GroupKey(self.group_id), None)]

    @property
    def subscribed_topics(self) -> AbstractSet[str] | None:
        """The topics that members read; None if they are unknown."""
        return self._generation.subscribed_topics

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a consumer of this group reads the topic; True if that is unknown."""
        return self._generation.is_subscribed_to(topic)

    def check_offset_commit(self, committer: Committer) -> None:
        """Check that the client may commit offsets.

        Raises:
            KafkaError: the client may not commit offsets.
        """
        self._admission.check_offset_commit(committer)

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Allow every client to fetch offsets."""

    def check_delete(self) -> None:
        """
        Raises:
            KafkaError: NON_EMPTY_GROUP.
        """
        if self.state is not GroupState.EMPTY:
            raise KafkaError(ErrorCode.non_empty_group)

    def check_offset_delete(self) -> None:
        """Check that offsets may be deleted. If the group has members, their topics must be known.

        Raises:
            KafkaError: NON_EMPTY_GROUP.
        """
        if self.state is not GroupState.EMPTY and self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            raise KafkaError(ErrorCode.non_empty_group)

    def retention_starts_ms(self, commit_timestamp_ms: int) -> int | None:
        """The start of an offset's retention time (KIP-211); None while it may not expire."""
        return self._generation.retention_starts_ms(commit_timestamp_ms)
