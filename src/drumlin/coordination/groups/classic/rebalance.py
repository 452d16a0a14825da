"""A rebalance: waits for members with a timeout, removes late ones, begins the next generation.

First the rebalance is prepared (members join), then completed (they sync, and the leader's
assignment is stored). `group.py` handles the requests. Nothing here awaits or writes: answers and
records go into the group's effects.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from itertools import islice
from typing import Final

from drumlin.coordination.groups.classic.effects import Effects
from drumlin.coordination.groups.classic.generation import Generation
from drumlin.coordination.groups.classic.membership import Member, Membership
from drumlin.coordination.groups.classic.timers import Timers
from drumlin.coordination.groups.every_kind.messages import (
    NO_MEMBER_ID,
    Assigned,
    Emptied,
    JoinAnswer,
    SyncAnswer,
)
from drumlin.coordination.groups.every_kind.states import (
    EMPTIED_AGAIN_MS,
    Deadline,
    DeadlineKind,
    GroupRules,
    GroupState,
)
from drumlin.wire.error_codes import ErrorCode

_log = logging.getLogger(__name__)

#: The maximum number of characters logged of a reason, as it contains text from clients.
_REASON_LENGTH_MAX: Final = 300

#: The maximum number of late members (without a join or sync) removed in one turn, which takes a
#: millisecond.
_REMOVED_AT_ONCE: Final = 200


class Rebalance:
    """The phases between two generations of a group."""

    def __init__(
        self,
        generation: Generation,
        membership: Membership,
        timers: Timers,
        effects: Effects,
        rules: GroupRules,
    ) -> None:
        self._generation = generation
        self._membership = membership
        self._timers = timers
        self._effects = effects
        self._rules = rules
        # The first rebalance of an empty group is delayed, and delayed again while members join.
        self._initial_delay_ms: int | None = None
        self._initial_remaining_ms = 0
        self._joined_during_delay = False
        self._assigned_id: int | None = None
        """The generation whose assignment is being written."""
        self._late: set[str] = set()
        """Members that have not synced, and will be removed unless they join."""

    # -- members join ------------------------------------------------------------------------

    def prepare(self, reason: str) -> None:
        """Begin a rebalance: all members must join again."""
        if self._generation.state is GroupState.COMPLETING_REBALANCE:
            self._fail_syncs(ErrorCode.rebalance_in_progress)
        self._membership.pending_sync.clear()
        self._timers.cancel(DeadlineKind.SYNC)
        is_first = self._generation.state is GroupState.EMPTY
        self._generation.transition_to(GroupState.PREPARING_REBALANCE)
        shown = reason[:_REASON_LENGTH_MAX]
        _log.info("group %r rebalances after generation %d: %r", *self._generation.name, shown)
        timeout_ms = self._membership.rebalance_timeout_ms
        if is_first:
            delay_ms = self._rules.group_initial_rebalance_delay_ms
            self._initial_delay_ms = delay_ms
            self._initial_remaining_ms = max(timeout_ms - delay_ms, 0)
            self._joined_during_delay = False
            self._timers.schedule(DeadlineKind.JOIN, delay_ms)
        elif self._membership.all_joined:
            self._complete_join()
        else:
            self._timers.schedule(DeadlineKind.JOIN, timeout_ms)

    def add(self, member: Member) -> None:
        """Add a new member. Then call `joined`."""
        self._joined_during_delay = self._initial_delay_ms is not None
        self._membership.add(member)

    def joined(self, reason: str) -> None:
        """Rebalance after a member has joined, or complete the join if that was the last missing
        member.
        """
        if self._generation.state is GroupState.PREPARING_REBALANCE:
            self.complete_join_if_all_joined()
        else:
            self.prepare(reason)

    def left(self, reason: str) -> None:
        """Rebalance after members have left, or complete the join if only they were missing."""
        if self._generation.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            self.prepare(reason)
        else:
            self.complete_join_if_all_joined()

    def complete_join_if_all_joined(self) -> None:
        is_first = self._initial_delay_ms is not None
        preparing = self._generation.state is GroupState.PREPARING_REBALANCE
        if preparing and not is_first and self._membership.all_joined:
            self._complete_join()

    def _complete_join(self) -> None:
        """Begin the next generation, with joined and static members."""
        generation, membership = self._generation, self._membership
        self._timers.cancel(DeadlineKind.JOIN)
        if not membership.elect_joined_leader() and membership.members:
            # Only absent static members are left: wait for their sessions to expire.
            self._timers.schedule(DeadlineKind.JOIN, membership.rebalance_timeout_ms)
            return
        self._initial_delay_ms = None
        self._timers.cancel(DeadlineKind.SYNC)
        self._late = set()
        membership.pending_sync.clear()
        generation.begin_next()
        if not membership.members:
            _log.info("group %r is empty in generation %d", *generation.name)
            self._effects.store(Emptied())
            return
        count = len(membership.members)
        _log.info("group %r begins generation %d with %d members", *generation.name, count)
        membership.pending_sync = set(membership.members)
        self._timers.schedule(DeadlineKind.SYNC, membership.rebalance_timeout_ms)
        self._effects.answer_joins()

    # -- members sync ------------------------------------------------------------------------

    def synced(self, member: Member) -> None:
        """Remember that a member has sent SyncGroup."""
        self._membership.pending_sync.discard(member.member_id)
        if not self._membership.pending_sync:
            self._timers.cancel(DeadlineKind.SYNC)

    def assign(self, asked: Iterable[tuple[str, bytes]]) -> None:
        """Store the leader's assignment, unless this generation already has one."""
        if self._assigned_id != self._generation.id:
            self._assigned_id = self._generation.id
            self._effects.store(Assigned(self._generation.id, asked))

    def assignment_stored(self, assignments: dict[str, bytes], error: ErrorCode | None) -> None:
        """Handle the outcome of storing the leader's assignment."""
        if error is not None:
            self._fail_syncs(error)
            self.prepare(f"the assignment was not stored: {error.name}")
            return
        self._generation.transition_to(GroupState.STABLE)
        for member in self._membership.members.values():
            member.assignment = assignments.get(member.member_id, b"")
        protocol_type, name = self._generation.protocol_type, self._generation.protocol_name
        self._effects.answer_syncs(
            lambda member_id: SyncAnswer(
                ErrorCode.none, protocol_type, name, assignments.get(member_id, b"")
            )
        )

    def _fail_syncs(self, error: ErrorCode) -> None:
        for member in self._membership.members.values():
            member.assignment = b""
        answer = SyncAnswer(error)
        self._effects.answer_syncs(lambda _: answer)

    # -- time passes -------------------------------------------------------------------------

    def expire(self, deadline: Deadline) -> None:
        """Handle a deadline of this group that has passed."""
        if deadline.kind is DeadlineKind.SESSION:
            self._session_ended(deadline.member_id)
        elif deadline.kind is DeadlineKind.JOIN:
            self._join_phase_ended()
        else:
            self._sync_phase_ended()

    def empty_again(self) -> None:
        """Retry later to write the record of the empty group."""
        self._timers.schedule(DeadlineKind.JOIN, EMPTIED_AGAIN_MS)

    def cancel(self) -> None:
        """Stop waiting for members, as the group was removed."""
        self._timers.cancel(DeadlineKind.JOIN)
        self._timers.cancel(DeadlineKind.SYNC)

    def _join_phase_ended(self) -> None:
        delay_ms, remaining_ms = self._initial_delay_ms, self._initial_remaining_ms
        if self._generation.state is GroupState.EMPTY:
            self._effects.store(Emptied())  # the log does not have the empty group yet
        elif delay_ms is not None and self._joined_during_delay and remaining_ms:
            self._joined_during_delay = False
            self._initial_delay_ms = min(self._rules.group_initial_rebalance_delay_ms, remaining_ms)
            self._initial_remaining_ms = max(remaining_ms - delay_ms, 0)
            self._timers.schedule(DeadlineKind.JOIN, self._initial_delay_ms)
        elif self._remove_absent():
            self._complete_join()
        else:
            # Continue in a later turn; members may still join in between.
            self._timers.schedule(DeadlineKind.JOIN, 0)

    def _sync_phase_ended(self) -> None:
        """Remove members that have not sent SyncGroup; if there are very many, a few at a time."""
        if self._generation.state is GroupState.PREPARING_REBALANCE:
            self._remove_late()
        else:
            self._late, self._membership.pending_sync = self._membership.pending_sync, set()
            if not self._late:
                return
            late, count = len(self._late), len(self._membership.members)
            self._remove_late()
            self.prepare(f"{late} of {count} members did not sync")
        if self._late:
            # Continue in a later turn; members may still join in between.
            self._timers.schedule(DeadlineKind.SYNC, 0)
        else:
            self.complete_join_if_all_joined()

    def _session_ended(self, member_id: str) -> None:
        member = self._membership.members.get(member_id)
        if member is not None:
            if member.answers_under_way or (member.is_waiting and not member.is_new):
                return  # a waiting request counts as a heartbeat
            _log.info("group %s, generation %d: %r is silent", *self._generation.name, member_id)
            self.remove(member)
            if self._generation.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
                self.prepare(f"the session of {member_id} ended")
                return
        elif member_id not in self._membership.pending_join:
            return
        self._membership.pending_join.discard(member_id)
        if self._generation.state is GroupState.PREPARING_REBALANCE and self._membership.all_joined:
            self._complete_join()

    # -- members are lost --------------------------------------------------------------------

    def remove(self, member: Member) -> None:
        """Remove a member. Then call `left`, unless a rebalance begins anyway."""
        # If the client still waits for an answer, it must join as a new member.
        self._effects.answer_join(member, JoinAnswer(ErrorCode.unknown_member_id, NO_MEMBER_ID))
        self._effects.answer_sync(member, SyncAnswer(ErrorCode.unknown_member_id))
        self._timers.cancel(DeadlineKind.SESSION, member.member_id)
        self._membership.remove(member.member_id)

    def _remove_absent(self) -> bool:
        """Remove members that have not joined, except static ones. Returns False if more remain to
        be removed.
        """
        absent = (
            member
            for member in self._membership.members.values()
            if member.join_waiter is None and member.group_instance_id is None
        )
        removed = list(islice(absent, _REMOVED_AT_ONCE))
        for member in removed:
            self.remove(member)
        return len(removed) < _REMOVED_AT_ONCE

    def _remove_late(self) -> None:
        for member_id in list(islice(self._late, _REMOVED_AT_ONCE)):
            self._late.discard(member_id)
            member = self._membership.members.get(member_id)
            if member is not None and member.join_waiter is None:
                self.remove(member)
