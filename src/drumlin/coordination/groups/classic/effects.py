"""The effects of a group's decisions, in order: answers to its members, and records to write.

Answers to very many members are decided together, but created one by one, between other requests.
This file makes no decisions. A member sends no heartbeats while it waits for an answer, so the
answer restarts its session.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Any

from drumlin.coordination.groups.classic.generation import Generation
from drumlin.coordination.groups.classic.membership import Member, Membership, Waiting, in_steps
from drumlin.coordination.groups.classic.timers import Timers
from drumlin.coordination.groups.every_kind.messages import (
    NO_MEMBER_ID,
    Answer,
    Answers,
    Effect,
    JoinAnswer,
    JoinedMember,
    Purpose,
    Store,
    SyncAnswer,
)
from drumlin.coordination.groups.every_kind.states import GroupState
from drumlin.wire.error_codes import ErrorCode


class Effects:
    """The effects for one group, collected until they are taken."""

    __slots__ = ("_effects", "_generation", "_membership", "_timers")

    def __init__(self, generation: Generation, membership: Membership, timers: Timers) -> None:
        self._generation = generation
        self._membership = membership
        self._timers = timers
        self._effects: list[Effect] = []

    def take(self) -> list[Effect]:
        effects, self._effects = self._effects, []
        return effects

    def store(self, purpose: Purpose) -> None:
        self._effects.append(Store(purpose))

    # -- to one member -----------------------------------------------------------------------

    def answer(self, waiter: Any, answer: JoinAnswer | SyncAnswer) -> None:
        if waiter is not None:
            self._effects.append(Answer(waiter, answer))

    def answer_leader(self, waiter: Any, answer: JoinAnswer) -> None:
        """Answer a join of the leader, with all members."""
        if waiter is not None:
            self._effects.append(Answers(1, self._leader_answer(waiter, answer)))

    def answer_join(self, member: Member, answer: JoinAnswer) -> None:
        """Answer the member's waiting join, if any."""
        self.answer(self._membership.set_join_waiter(member, None), answer)

    def answer_sync(self, member: Member, answer: SyncAnswer) -> None:
        """Answer the member's waiting sync, if any."""
        if member.sync_waiter is not None:
            self.answer(member.sync_waiter, answer)
            member.sync_waiter = None
            # The member's session may have expired while the request waited.
            self._timers.extend_session(member)

    def let_join_wait(self, member: Member, waiter: Any) -> None:
        """Let the member's join wait for an answer; refuse an earlier join that still waits."""
        previous = self._membership.set_join_waiter(member, waiter)
        if previous is not None:
            refusal = JoinAnswer(ErrorCode.rebalance_in_progress, member.member_id)
            self.answer(previous, refusal)

    def let_sync_wait(self, member: Member, waiter: Any) -> None:
        """Let the member's sync wait for an answer; refuse an earlier sync that still waits."""
        if member.sync_waiter is not None:
            self.answer_sync(member, SyncAnswer(ErrorCode.rebalance_in_progress))
        member.sync_waiter = waiter

    # -- to all members ----------------------------------------------------------------------

    def answer_joins(self) -> None:
        """Answer the joins of all members of the new generation."""
        joined = self._membership.take_join_waiters()
        beginning = self._join_answers(joined, self._generation.join_answer(NO_MEMBER_ID))
        self._effects.append(Answers(len(joined), beginning))

    def answer_syncs(self, answer_of: Callable[[str], SyncAnswer]) -> None:
        """Answer all requests that wait for an assignment."""
        waiting = self._membership.take_sync_waiters()
        if waiting:
            self._effects.append(Answers(len(waiting), self._answers(waiting, answer_of)))

    def refuse_all(self, error: ErrorCode) -> None:
        """Answer all waiting requests with an error, as the group has moved or was removed."""
        if self._membership.awaiting_join:
            joined = self._membership.take_join_waiters()
            refusing = self._answers(joined, lambda member_id: JoinAnswer(error, member_id))
            self._effects.append(Answers(len(joined), refusing))
        refusal = SyncAnswer(error)
        self.answer_syncs(lambda _: refusal)

    # -- in turns ----------------------------------------------------------------------------

    def _join_answers(self, joined: list[Waiting], answer: JoinAnswer) -> Iterator[Answer | None]:
        """The answers to all joined members; only the leader's answer lists the members."""
        error, _, generation_id, protocol_type, name, leader_id, _, _ = answer
        for member, member_id, waiter in _taken(joined):
            self._note_answered(member)
            own_answer = JoinAnswer(error, member_id, generation_id, protocol_type, name, leader_id)
            if waiter is None:
                yield None
            elif member_id == leader_id:
                yield from self._leader_answer(waiter, own_answer)
            else:
                yield Answer(waiter, own_answer)
        yield from self._generation.read_subscriptions(generation_id)

    def _answers(
        self, waiting: list[Waiting], answer_of: Callable[[str], JoinAnswer | SyncAnswer]
    ) -> Iterator[Answer | None]:
        for member, member_id, waiter in _taken(waiting):
            self._note_answered(member)
            yield None if waiter is None else Answer(waiter, answer_of(member_id))

    def _note_answered(self, member: Member) -> None:
        member.answers_under_way -= 1
        member.is_new = False
        is_here = self._membership.members.get(member.member_id) is member
        if is_here and self._generation.state is not GroupState.DEAD:
            self._timers.extend_session(member)

    def _leader_answer(self, waiter: Any, answer: JoinAnswer) -> Iterator[Answer | None]:
        """The leader's answer, with all members; or an error, if the generation has ended."""
        members = yield from self._joined_members(answer.generation_id)
        if members is None:
            refusal = JoinAnswer(ErrorCode.rebalance_in_progress, answer.member_id)
            yield Answer(waiter, refusal)
        else:
            yield Answer(waiter, answer._replace(members=members))

    def _joined_members(
        self, generation_id: int
    ) -> Generator[None, None, tuple[JoinedMember, ...] | None]:
        generation = self._generation
        name, joined = generation.protocol_name, list[JoinedMember]()
        for some in in_steps(self._membership.members.values()):
            if not generation.is_current(generation_id):
                return None
            for each in some:
                metadata = each.metadata(name)
                joined.append(JoinedMember(each.member_id, each.group_instance_id, metadata))
            yield
        return tuple(joined) if generation.is_current(generation_id) else None


def _taken(waiting: list[Waiting]) -> Iterator[Waiting]:
    """Each waiter in turn; frees each after use, as freeing all at once would block the loop."""
    waiting.reverse()
    while waiting:
        yield waiting.pop()
