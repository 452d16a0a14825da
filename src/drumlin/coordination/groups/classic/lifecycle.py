"""How a group goes from state to state: preparing and completing a rebalance, members lost.

Requests are in `group.py`, on top of this; here is what happens between them. Nothing
awaits: answers and writes are collected as effects, deadlines go into the queue handed in.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from itertools import islice
from typing import Any, Final

from drumlin.clock import Clock
from drumlin.coordination.deadlines import DeadlineQueue
from drumlin.coordination.groups.classic.membership import (
    Member,
    Membership,
    Waiting,
    in_steps,
)
from drumlin.coordination.groups.classic.messages import (
    NO_LEADER,
    NO_MEMBER_ID,
    Answer,
    Answers,
    Effect,
    Emptied,
    JoinAnswer,
    JoinedMember,
    Store,
    SyncAnswer,
)
from drumlin.coordination.groups.classic.records import GroupMetadata
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
    add_topics,
)
from drumlin.turns import Work
from drumlin.wire.errors import ErrorCode

_log = logging.getLogger(__name__)

#: Of a reason, parts of which clients give, this much is logged.
REASON_LENGTH_MAX: Final = 300

#: Members that are out because they have not joined, or not synced: a millisecond's worth.
_REMOVED_AT_ONCE: Final = 200


class GroupLifecycle:
    """The generation of a group, and the phases in which the next one is made."""

    def __init__(
        self, group_id: str, rules: GroupRules, clock: Clock, deadlines: DeadlineQueue[Deadline]
    ) -> None:
        self.group_id = group_id
        self.membership = Membership()
        self.state = GroupState.EMPTY
        self._transitions = 0
        self.records_in_log = 0
        """How many were written since the group is here."""
        self.generation_id = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.state_timestamp_ms: int | None = clock.wall_ms()
        self.subscribed_topics: AbstractSet[str] | None = None
        """What the members read; None where that cannot be known, or is not known yet."""
        self._rules = rules
        self._clock = clock
        self._deadlines = deadlines
        self._effects: list[Effect] = []
        # The first rebalance of an empty group waits, and longer while members keep coming.
        self._initial_delay_ms: int | None = None
        self._initial_remaining_ms = 0
        self._joined_during_delay = False
        self._is_assigning = False  # the assignment of this generation is on its way to the log
        self._late: set[str] = set()  # members that have not synced, and are out unless they join

    def restore_metadata(self, metadata: GroupMetadata) -> Work[None]:
        """Restore an empty or a stable group from its record; yields after each member.

        The sessions of its members begin anew.
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
            yield
        if metadata.leader_id in self.membership.members:
            self.membership.leader_id = metadata.leader_id
        self.state = GroupState.STABLE if metadata.members else GroupState.EMPTY
        self.generation_id = metadata.generation_id
        self.protocol_type = metadata.protocol_type
        self.state_timestamp_ms = metadata.state_timestamp_ms
        if metadata.members:
            yield from self._read_subscriptions(self.generation_id)
        else:
            self._read_nothing()
        if len(self.membership.members) > self._rules.group_max_size:
            self._prepare_rebalance("it was loaded with more members than are allowed now")

    def expire(self, deadline: Deadline) -> list[Effect]:
        """A deadline of this group has come."""
        if self.state is GroupState.DEAD:
            return []
        if deadline.kind is DeadlineKind.SESSION:
            self._session_ended(deadline.member_id)
        elif deadline.kind is DeadlineKind.JOIN:
            self._join_phase_ended()
        else:
            self._sync_phase_ended()
        return self._take_effects()

    def unload(self, error: ErrorCode = ErrorCode.not_coordinator) -> list[Effect]:
        """The group has moved to another broker, or is gone: end all waiting requests."""
        self._die(error)
        return self._take_effects()

    def dissolve(self) -> Work[list[Any]]:
        yield  # deadlines are left to come: see `_die`
        members = list(self.membership.members.values())
        self.membership = Membership()  # the waiting members are answered later
        return members

    def extend_sessions(self) -> Work[None]:
        """Begin the sessions of all current members anew."""
        for some in in_steps(self.membership.members.values()):
            for each in some:
                is_here = self.membership.members.get(each.member_id) is each
                if is_here and self.state is not GroupState.DEAD:
                    self._extend_session(each)
            yield

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
        if self.state is GroupState.EMPTY:
            self._effects.append(Store(Emptied()))  # the log does not say so yet
        elif delay_ms is not None and self._joined_during_delay and remaining_ms:
            self._joined_during_delay = False
            self._initial_delay_ms = min(self._rules.group_initial_rebalance_delay_ms, remaining_ms)
            self._initial_remaining_ms = max(remaining_ms - delay_ms, 0)
            self._schedule(DeadlineKind.JOIN, self._initial_delay_ms)
        elif self._remove_absent():
            self._complete_join()
        else:
            self._schedule(DeadlineKind.JOIN, 0)  # others have their turn; some may join in it

    def _remove_absent(self) -> bool:
        """Remove members that have not joined, but for static ones; False if some are left."""
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
        """Begin the next generation, with the joined members and the static ones."""
        self._cancel(DeadlineKind.JOIN)
        if not self.membership.elect_joined_leader() and self.membership.members:
            # Only absent static members: their sessions decide.
            self._schedule(DeadlineKind.JOIN, self.membership.rebalance_timeout_ms)
            return
        self._initial_delay_ms = None
        self._cancel(DeadlineKind.SYNC)
        self._late = set()
        self.membership.pending_sync.clear()
        self.generation_id += 1
        if self.membership.members:
            self._begin_generation()
        else:
            self.protocol_name = None
            self._transition_to(GroupState.EMPTY)
            self._read_nothing()
            _log.info("group %r is empty in generation %d", *self._name)
            self._effects.append(Store(Emptied()))

    def _begin_generation(self) -> None:
        self.protocol_name = self.membership.elect_protocol()
        self._transition_to(GroupState.COMPLETING_REBALANCE)
        self.subscribed_topics = None
        _log.info(
            "group %r begins generation %d with %d members",
            *self._name,
            len(self.membership.members),
        )
        self.membership.pending_sync = set(self.membership.members)
        self._schedule(DeadlineKind.SYNC, self.membership.rebalance_timeout_ms)
        joined = self.membership.take_join_waiters()
        beginning = self._telling_of_generation(joined, self._join_answer(NO_MEMBER_ID))
        self._effects.append(Answers(len(joined), beginning))

    def _complete_sync(self, assignments: dict[str, bytes], error: ErrorCode | None) -> None:
        """The leader's assignment is stored, or could not be."""
        if error is not None:
            self._propagate_failure(error)
            self._prepare_rebalance(f"the assignment was not stored: {error.name}")
            return
        self._transition_to(GroupState.STABLE)
        for member in self.membership.members.values():
            member.assignment = assignments.get(member.member_id, b"")
        protocol_type, name = self.protocol_type, self.protocol_name
        self._answer_syncs(
            lambda member_id: SyncAnswer(
                ErrorCode.none, protocol_type, name, assignments.get(member_id, b"")
            )
        )

    def _propagate_failure(self, error: ErrorCode) -> None:
        for member in self.membership.members.values():
            member.assignment = b""
        answer = SyncAnswer(error)
        self._answer_syncs(lambda _: answer)

    def _sync_phase_ended(self) -> None:
        """Remove members that have not asked for their assignment; if very many, some at a time."""
        if self.state is GroupState.PREPARING_REBALANCE:
            self._remove_late()
        else:
            self._late, self.membership.pending_sync = self.membership.pending_sync, set()
            if not self._late:
                return
            reason = f"{len(self._late)} of {len(self.membership.members)} members did not sync"
            self._remove_late()
            self._prepare_rebalance(reason)
        if self._late:
            self._schedule(DeadlineKind.SYNC, 0)  # others have their turn; some may join in it
        else:
            self._complete_join_if_all_joined()

    def _remove_late(self) -> None:
        for member_id in list(islice(self._late, _REMOVED_AT_ONCE)):
            self._late.discard(member_id)
            member = self.membership.members.get(member_id)
            if member is not None and member.join_waiter is None:
                self._remove_member(member)

    # -- members lost ------------------------------------------------------------------------

    def _session_ended(self, member_id: str) -> None:
        member = self.membership.members.get(member_id)
        if member is not None:
            if member.answers_under_way or (member.is_waiting and not member.is_new):
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
        # Sessions are left to expire: by then the group is gone, or has set its own.
        if self.membership.awaiting_join:
            joined = self.membership.take_join_waiters()
            refusing = self._telling(joined, lambda member_id: JoinAnswer(error, member_id))
            self._effects.append(Answers(len(joined), refusing))
        refusal = SyncAnswer(error)
        self._answer_syncs(lambda _: refusal)

    # -- what members are told ---------------------------------------------------------------

    def _telling_of_generation(
        self, joined: list[Waiting], answer: JoinAnswer
    ) -> Iterator[Answer | None]:
        """The answers to all joined members; the leader's lists the members."""
        error, _, generation_id, protocol_type, name, leader_id, _, _ = answer
        for member, member_id, waiter in _taken(joined):
            self._is_told(member)
            told = JoinAnswer(error, member_id, generation_id, protocol_type, name, leader_id)
            if waiter is None:
                yield None
            elif member_id == leader_id:
                yield from self._telling_the_leader(waiter, told)
            else:
                yield Answer(waiter, told)
        yield from self._read_subscriptions(generation_id)

    def _telling(
        self, waiting: list[Waiting], answer_of: Callable[[str], JoinAnswer | SyncAnswer]
    ) -> Iterator[Answer | None]:
        for member, member_id, waiter in _taken(waiting):
            self._is_told(member)
            yield None if waiter is None else Answer(waiter, answer_of(member_id))

    def _is_told(self, member: Member) -> None:
        member.answers_under_way -= 1
        member.is_new = False
        is_here = self.membership.members.get(member.member_id) is member
        if is_here and self.state is not GroupState.DEAD:
            self._extend_session(member)

    def _tell_leader(self, waiter: Any, answer: JoinAnswer) -> None:
        if waiter is not None:
            self._effects.append(Answers(1, self._telling_the_leader(waiter, answer)))

    def _telling_the_leader(self, waiter: Any, answer: JoinAnswer) -> Iterator[Answer | None]:
        """The leader's answer, with all members; or a rejoin, if the generation is over by then."""
        members = yield from self._joined_members(answer.generation_id)
        if members is None:
            refusal = JoinAnswer(ErrorCode.rebalance_in_progress, answer.member_id)
            yield Answer(waiter, refusal)
        else:
            yield Answer(waiter, answer._replace(members=members))

    def _joined_members(self, generation_id: int) -> Work[tuple[JoinedMember, ...] | None]:
        name, joined = self.protocol_name, list[JoinedMember]()
        for some in in_steps(self.membership.members.values()):
            if not self._is_current(generation_id):
                return None
            for each in some:
                metadata = each.metadata(name)
                joined.append(JoinedMember(each.member_id, each.group_instance_id, metadata))
            yield
        return tuple(joined) if self._is_current(generation_id) else None

    def _is_current(self, generation_id: int) -> bool:
        """Whether the generation has begun and no other is prepared: its members stay."""
        has_begun = self.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE)
        return has_begun and self.generation_id == generation_id

    def _join_answer(
        self, member_id: str, *, leader_id: str | None = None, skip_assignment: bool = False
    ) -> JoinAnswer:
        """Without the members, which `_telling_the_leader` adds."""
        return JoinAnswer(
            ErrorCode.none,
            member_id,
            self.generation_id,
            self.protocol_type,
            self.protocol_name,
            leader_id or self.membership.leader_id or NO_LEADER,
            skip_assignment,
        )

    def _sync_answer(self, assignment: bytes) -> SyncAnswer:
        return SyncAnswer(ErrorCode.none, self.protocol_type, self.protocol_name, assignment)

    def _answer_syncs(self, answer_of: Callable[[str], SyncAnswer]) -> None:
        """Answer all requests that wait for an assignment."""
        waiting = self.membership.take_sync_waiters()
        if waiting:
            self._effects.append(Answers(len(waiting), self._telling(waiting, answer_of)))

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

    # -- small things ------------------------------------------------------------------------

    @property
    def revision(self) -> int:
        """A number that changes with the state, the generation, its members and its record."""
        return self._transitions + self.membership.changes + self.records_in_log

    @property
    def _name(self) -> tuple[str, int]:
        return self.group_id, self.generation_id

    def _transition_to(self, state: GroupState) -> None:
        if state not in LEGAL_TRANSITIONS[self.state]:
            raise IllegalTransition(f"{self.group_id}: {self.state.value} to {state.value}")
        self.state = state
        self._transitions += 1
        self.state_timestamp_ms = self._clock.wall_ms()
        self._is_assigning = False

    @property
    def _are_consumers(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    def _read_subscriptions(self, generation_id: int) -> Work[None]:
        """Find out the topics that a generation reads, unless it is over before."""
        topics, read = set[str](), set[bytes]()
        if not self._are_consumers:
            return
        for some in in_steps(self.membership.members.values()):
            if not self._is_current(generation_id):
                return
            said = {each.metadata(self.protocol_name) for each in some} - read
            read |= said  # most members of a group say the same
            try:
                for each in said:
                    yield from add_topics(each, topics)
            except ValueError as error:
                _log.warning("group %s, generation %d: no subscription: %s", *self._name, error)
                return
            yield
        if self._is_current(generation_id):
            self.subscribed_topics = topics

    def _read_nothing(self) -> None:
        self.subscribed_topics = frozenset() if self._are_consumers else None

    def _extend_session(self, member: Member) -> None:
        self._schedule(DeadlineKind.SESSION, member.session_timeout_ms, member.member_id)

    def _schedule(self, kind: DeadlineKind, timeout_ms: int, member_id: str = NO_MEMBER_ID) -> None:
        deadline = self._clock.monotonic() + timeout_ms / 1000
        self._deadlines.schedule(Deadline(self.group_id, kind, member_id), deadline)

    def _cancel(self, kind: DeadlineKind, member_id: str = NO_MEMBER_ID) -> None:
        self._deadlines.cancel(Deadline(self.group_id, kind, member_id))


def _taken(waiting: list[Waiting]) -> Iterator[Waiting]:
    """Each waiter, released after its turn: to free all at once would take long."""
    waiting.reverse()
    while waiting:
        yield waiting.pop()
