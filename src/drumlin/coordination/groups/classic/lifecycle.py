"""How a group goes from state to state: preparing and completing a rebalance, members lost.

What requests do is in `group.py`, on top of this; here is what happens between them. Nothing
awaits: answers and writes are collected as effects, deadlines go into the queue handed in.
"""

from __future__ import annotations

import logging
from itertools import islice
from typing import Any, Final

from drumlin.clock import Clock
from drumlin.coordination.deadlines import DeadlineQueue
from drumlin.coordination.groups.classic.membership import Member, Membership
from drumlin.coordination.groups.classic.messages import (
    NO_LEADER,
    NO_MEMBER_ID,
    Answer,
    Effect,
    Emptied,
    JoinAnswer,
    Store,
    SyncAnswer,
)
from drumlin.coordination.groups.classic.records import GroupMetadata, MemberMetadata
from drumlin.coordination.groups.classic.states import (
    LEGAL_TRANSITIONS,
    Deadline,
    DeadlineKind,
    GroupRules,
    GroupState,
    IllegalTransition,
)
from drumlin.coordination.groups.classic.subscription import (
    CONSUMER_PROTOCOL_TYPE,
    subscribed_topics,
)
from drumlin.wire.errors import ErrorCode

_log = logging.getLogger(__name__)

#: Of a reason, parts of which clients give, this much is logged.
REASON_LENGTH_MAX: Final = 300

#: Members that are out because they have not joined: a millisecond's worth.
_REMOVED_AT_ONCE: Final = 200


class GroupLifecycle:
    """The generation of a group, and the phases in which the next one is made."""

    def __init__(
        self, group_id: str, rules: GroupRules, clock: Clock, deadlines: DeadlineQueue[Deadline]
    ) -> None:
        self.group_id = group_id
        self.membership = Membership()
        self.state = GroupState.EMPTY
        self.generation_id = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.state_timestamp_ms: int | None = clock.wall_ms()
        self.subscribed_topics: frozenset[str] | None = None
        """What the members read; None where that cannot be known."""
        self._rules = rules
        self._clock = clock
        self._deadlines = deadlines
        self._effects: list[Effect] = []
        # The first rebalance of an empty group waits, and longer while members keep coming.
        self._initial_delay_ms: int | None = None
        self._initial_remaining_ms = 0
        self._joined_during_delay = False

    def restore_metadata(self, metadata: GroupMetadata) -> None:
        """Become what the log says: an empty or a stable group.

        Its members get the time of a session to show themselves.
        """
        self.protocol_name = metadata.protocol_name
        if metadata.members:
            self.protocol_name = metadata.protocol_name or ""
        for each in metadata.members:
            member = Member(
                each.member_id,
                each.group_instance_id,
                each.client_id,
                each.client_host,
                each.rebalance_timeout_ms,
                each.session_timeout_ms,
                ((self.protocol_name or "", each.subscription),),
                each.assignment,
            )
            self.membership.add(member)
            self._extend_session(member)
        if metadata.leader_id in self.membership.members:
            self.membership.leader_id = metadata.leader_id
        self.state = GroupState.STABLE if metadata.members else GroupState.EMPTY
        self.generation_id = metadata.generation_id
        self.protocol_type = metadata.protocol_type
        self.state_timestamp_ms = metadata.state_timestamp_ms
        self.subscribed_topics = self._read_subscriptions()
        if len(self.membership.members) > self._rules.group_max_size:
            self._prepare_rebalance("it was loaded with more members than are allowed now")

    def expire(self, deadline: Deadline) -> list[Effect]:
        """A deadline of this group has come."""
        if deadline.kind is DeadlineKind.SESSION:
            self._session_ended(deadline.member_id)
        elif deadline.kind is DeadlineKind.JOIN:
            self._join_phase_ended()
        else:
            self._sync_phase_ended()
        return self._take_effects()

    def unload(self, error: ErrorCode = ErrorCode.not_coordinator) -> list[Effect]:
        """The group has moved to another broker, or is no more: nobody is left waiting."""
        self._die(error)
        return self._take_effects()

    # -- the phases of a rebalance -----------------------------------------------------------

    def _rebalance_or_complete_join(self, reason: str) -> None:
        if self.state is GroupState.PREPARING_REBALANCE:
            self._complete_join_if_all_joined()
        else:
            self._prepare_rebalance(reason)

    def _prepare_rebalance(self, reason: str) -> None:
        if self.state is GroupState.COMPLETING_REBALANCE:
            self._propagate_failure(ErrorCode.rebalance_in_progress)
        self.membership.pending_sync.clear()
        self._cancel(DeadlineKind.SYNC)
        is_first = self.state is GroupState.EMPTY
        self._transition_to(GroupState.PREPARING_REBALANCE)
        shown = reason[:REASON_LENGTH_MAX]
        _log.info("group %r rebalances after generation %d: %r", *self._name, shown)
        timeout_ms = self.membership.rebalance_timeout_ms
        if is_first:
            delay_ms = self._rules.group_initial_rebalance_delay_ms
            self._initial_delay_ms = delay_ms
            self._initial_remaining_ms = max(timeout_ms - delay_ms, 0)
            self._joined_during_delay = False
            self._schedule(DeadlineKind.JOIN, delay_ms)
        elif self.membership.all_joined:
            self._complete_join()
        else:
            self._schedule(DeadlineKind.JOIN, timeout_ms)

    def _complete_join_if_all_joined(self) -> None:
        is_first = self._initial_delay_ms is not None
        preparing = self.state is GroupState.PREPARING_REBALANCE
        if preparing and not is_first and self.membership.all_joined:
            self._complete_join()

    def _join_phase_ended(self) -> None:
        delay_ms, remaining_ms = self._initial_delay_ms, self._initial_remaining_ms
        if delay_ms is not None and self._joined_during_delay and remaining_ms:
            self._joined_during_delay = False
            self._initial_delay_ms = min(self._rules.group_initial_rebalance_delay_ms, remaining_ms)
            self._initial_remaining_ms = max(remaining_ms - delay_ms, 0)
            self._schedule(DeadlineKind.JOIN, self._initial_delay_ms)
        elif self._remove_absent():
            self._complete_join()
        else:
            self._schedule(DeadlineKind.JOIN, 0)  # others have their turn; some may join in it

    def _remove_absent(self) -> bool:
        """Whoever has not joined is out, but for static members; False if only some of them are."""
        absent = (
            member
            for member in self.membership.members.values()
            if member.join_waiter is None and member.group_instance_id is None
        )
        removed = list(islice(absent, _REMOVED_AT_ONCE))
        for member in removed:
            self._remove_member(member)
        return len(removed) < _REMOVED_AT_ONCE

    def _complete_join(self) -> None:
        """Whoever is there begins anew, and static members with them."""
        self._cancel(DeadlineKind.JOIN)
        if not self.membership.elect_joined_leader() and self.membership.members:
            # Only absent static members: their sessions decide.
            self._schedule(DeadlineKind.JOIN, self.membership.rebalance_timeout_ms)
            return
        self._initial_delay_ms = None
        self.membership.pending_sync.clear()
        self.generation_id += 1
        if self.membership.members:
            self._begin_generation()
        else:
            self.protocol_name = None
            self._transition_to(GroupState.EMPTY)
            self.subscribed_topics = self._read_subscriptions()
            _log.info("group %r is empty in generation %d", *self._name)
            self._effects.append(Store(self.metadata(), Emptied()))

    def _begin_generation(self) -> None:
        self.protocol_name = self.membership.elect_protocol()
        self._transition_to(GroupState.COMPLETING_REBALANCE)
        self.subscribed_topics = self._read_subscriptions()
        _log.info(
            "group %r begins generation %d with %d members",
            *self._name,
            len(self.membership.members),
        )
        for member in self.membership.members.values():
            is_leader = member.member_id == self.membership.leader_id
            self._answer_join(member, self._join_answer(member, with_members=is_leader))
            self._extend_session(member)
            member.is_new = False
            self.membership.pending_sync.add(member.member_id)
        self._schedule(DeadlineKind.SYNC, self.membership.rebalance_timeout_ms)

    def _complete_sync(self, assignments: dict[str, bytes], error: ErrorCode | None) -> None:
        """The leader's assignment is stored, or could not be."""
        if error is not None:
            self._propagate_failure(error)
            self._prepare_rebalance(f"the assignment was not stored: {error.name}")
            return
        self._transition_to(GroupState.STABLE)
        for member in self.membership.members.values():
            member.assignment = assignments.get(member.member_id, b"")
            self._answer_sync(member, self._sync_answer(member))

    def _propagate_failure(self, error: ErrorCode) -> None:
        for member in self.membership.members.values():
            member.assignment = b""
            self._answer_sync(member, SyncAnswer(error))

    def _sync_phase_ended(self) -> None:
        absent = self.membership.pending_sync.copy()
        for member_id in absent:
            self._remove_member(self.membership.members[member_id])
        if absent:
            self._prepare_rebalance(f"{', '.join(sorted(absent))} did not sync")

    # -- members lost ------------------------------------------------------------------------

    def _session_ended(self, member_id: str) -> None:
        member = self.membership.members.get(member_id)
        if member is not None:
            if member.is_waiting and not member.is_new:
                return  # waiting for us is as good as a heartbeat
            _log.info("group %s, generation %d: %r is silent", *self._name, member_id)
            self._remove_member(member)
            if self.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
                self._prepare_rebalance(f"the session of {member_id} ended")
                return
        elif member_id not in self.membership.pending_join:
            return
        self.membership.pending_join.discard(member_id)
        if self.state is GroupState.PREPARING_REBALANCE and self.membership.all_joined:
            self._complete_join()

    def _remove_member(self, member: Member) -> None:
        # If its client still waits, it is told to come in as new.
        self._answer_join(member, JoinAnswer(ErrorCode.unknown_member_id, NO_MEMBER_ID))
        self._answer_sync(member, SyncAnswer(ErrorCode.unknown_member_id))
        self._cancel(DeadlineKind.SESSION, member.member_id)
        self.membership.remove(member.member_id)

    def _die(self, error: ErrorCode) -> None:
        if self.state is GroupState.DEAD:
            return
        self._transition_to(GroupState.DEAD)
        self._cancel(DeadlineKind.JOIN)
        self._cancel(DeadlineKind.SYNC)
        for member in self.membership.members.values():
            self._answer_join(member, JoinAnswer(error, member.member_id))
            self._answer_sync(member, SyncAnswer(error))
            self._cancel(DeadlineKind.SESSION, member.member_id)
        for member_id in self.membership.pending_join:
            self._cancel(DeadlineKind.SESSION, member_id)

    # -- what members are told ---------------------------------------------------------------

    def _join_answer(
        self,
        member: Member,
        *,
        with_members: bool,
        leader_id: str | None = None,
        skip_assignment: bool = False,
    ) -> JoinAnswer:
        members = self.membership.joined_members(self.protocol_name) if with_members else ()
        return JoinAnswer(
            ErrorCode.none,
            member.member_id,
            self.generation_id,
            self.protocol_type,
            self.protocol_name,
            leader_id or self.membership.leader_id or NO_LEADER,
            skip_assignment,
            members,
        )

    def _sync_answer(self, member: Member) -> SyncAnswer:
        return SyncAnswer(ErrorCode.none, self.protocol_type, self.protocol_name, member.assignment)

    def _answer(self, waiter: Any, answer: JoinAnswer | SyncAnswer) -> None:
        if waiter is not None:
            self._effects.append(Answer(waiter, answer))

    def _answer_join(self, member: Member, answer: JoinAnswer) -> None:
        self._answer(self.membership.set_join_waiter(member, None), answer)

    def _answer_sync(self, member: Member, answer: SyncAnswer) -> None:
        if member.sync_waiter is not None:
            self._answer(member.sync_waiter, answer)
            member.sync_waiter = None
            # Its session may have run out unnoticed while it waited.
            self._extend_session(member)

    def _take_effects(self) -> list[Effect]:
        effects, self._effects = self._effects, []
        return effects

    # -- what the log is told ----------------------------------------------------------------

    def metadata(self, assignments: dict[str, bytes] | None = None) -> GroupMetadata:
        """What the log is to remember; `assignments` if they are yet to become the members'."""
        return GroupMetadata(
            self.protocol_type,
            self.generation_id,
            self.protocol_name,
            self.membership.leader_id,
            self.state_timestamp_ms,
            tuple(
                self._member_metadata(
                    member,
                    member.assignment if assignments is None else assignments[member.member_id],
                )
                for member in self.membership.members.values()
            ),
        )

    def _member_metadata(self, member: Member, assignment: bytes) -> MemberMetadata:
        return MemberMetadata(
            member.member_id,
            member.group_instance_id,
            member.client_id,
            member.client_host,
            member.rebalance_timeout_ms,
            member.session_timeout_ms,
            member.metadata(self.protocol_name),
            assignment,
        )

    # -- small things ------------------------------------------------------------------------

    @property
    def _name(self) -> tuple[str, int]:
        return self.group_id, self.generation_id

    def _transition_to(self, state: GroupState) -> None:
        if state not in LEGAL_TRANSITIONS[self.state]:
            raise IllegalTransition(f"{self.group_id}: {self.state.value} to {state.value}")
        self.state = state
        self.state_timestamp_ms = self._clock.wall_ms()

    def _read_subscriptions(self) -> frozenset[str] | None:
        if self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return None
        # Most members of a group say the same: that is read once.
        said = {member.metadata(self.protocol_name) for member in self.membership.members.values()}
        try:
            return frozenset().union(*map(subscribed_topics, said))
        except ValueError as error:
            _log.warning("group %s, generation %d: no subscription: %s", *self._name, error)
            return None

    def _extend_session(self, member: Member) -> None:
        self._schedule(DeadlineKind.SESSION, member.session_timeout_ms, member.member_id)

    def _schedule(self, kind: DeadlineKind, timeout_ms: int, member_id: str = NO_MEMBER_ID) -> None:
        deadline = self._clock.monotonic() + timeout_ms / 1000
        self._deadlines.schedule(Deadline(self.group_id, kind, member_id), deadline)

    def _cancel(self, kind: DeadlineKind, member_id: str = NO_MEMBER_ID) -> None:
        self._deadlines.cancel(Deadline(self.group_id, kind, member_id))
