"""One group in the classic protocol: a state machine that awaits nothing.

Requests, time and the outcome of writes come in; answers to give and metadata to write come
out, as a list of effects that the caller must carry out in order. Time comes from the clock
handed in; deadlines go into the queue handed in and come back through `expire`.

    Empty --join--> PreparingRebalance --all joined, or time--> CompletingRebalance
      ^               |      ^     ^                              |         |
      '--nobody left--'      |     '---member joins, leaves, dies-'         |
                             |                                              |
                             '------------- Stable <--leader's assignment---'

Rules that are easy to miss are marked with their KIP.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from drumlin.clock import Clock
from drumlin.coordination.deadlines import DeadlineQueue
from drumlin.coordination.groups.classic.membership import Member, in_steps
from drumlin.coordination.groups.classic.messages import (
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
from drumlin.coordination.groups.classic.records import GroupKey, GroupMetadata, MemberMetadata
from drumlin.coordination.groups.classic.states import (
    EMPTIED_AGAIN_MS,
    NEW_MEMBER_JOIN_TIMEOUT_MS,
    Deadline,
    DeadlineKind,
    GroupRules,
    GroupState,
)
from drumlin.coordination.groups.classic.static_members import StaticMembers
from drumlin.coordination.groups.classic.subscription import CONSUMER_PROTOCOL_TYPE
from drumlin.coordination.groups.committer import Committer
from drumlin.coordination.groups.group_record import GroupRecord, RecordKey
from drumlin.coordination.groups.kind import GroupKind
from drumlin.turns import Work
from drumlin.wire.errors import ErrorCode, KafkaError


class Group(StaticMembers):
    """A group, its generation, and the requests that wait for it."""

    def __init__(
        self,
        group_id: str,
        rules: GroupRules,
        clock: Clock,
        deadlines: DeadlineQueue[Deadline],
        new_id: Callable[[], str],
    ) -> None:
        super().__init__(group_id, rules, clock, deadlines)
        self._new_id = new_id
        self.stores_under_way = 0
        """How many records are being made in turns."""
        self.replacements: list[Store] = []
        """Static members that are back, for the next record, of which nothing is made yet."""

    def restore(self, records: Iterable[tuple[RecordKey, Any]]) -> Work[None]:
        """Restore the group from its only record, which holds all of it."""
        for _, metadata in records:
            yield from self.restore_metadata(metadata)

    def take_over_members(
        self, protocols: Mapping[str, Protocols], reason: str | None
    ) -> list[Effect]:
        """Set the protocols of former consumer group members; rebalance if there is a reason."""
        for member_id, supported in protocols.items():
            self.membership.set_protocols(self.membership.members[member_id], supported)
        if reason is not None:
            self._prepare_rebalance(reason)
        return self._take_effects()

    def take_place(self, deadlines: DeadlineQueue[Deadline], reason: str) -> list[Effect]:
        """Take the place of the consumer group that it was made beside, and rebalance."""
        self._deadlines = deadlines
        self._prepare_rebalance(reason)
        return self._take_effects()

    def replay(self, key: RecordKey, value: Any | None) -> None:
        """Do nothing: the record's content is known here already, and `stored` confirms it."""

    # -- requests --------------------------------------------------------------------------

    def join(self, request: JoinRequest, waiter: Any) -> list[Effect]:
        """A member joins; it is answered when the next generation begins, or refused."""
        try:
            self._check_join(request)
            if request.member_id == NO_MEMBER_ID:
                self._join_as_new(request, waiter)
            elif request.member_id in self.membership.pending_join:
                self._add_member(request, request.member_id, waiter)
            else:
                self._join_again(request, waiter)
        except KafkaError as refusal:
            evicted = refusal.code is ErrorCode.group_max_size_reached
            member_id = NO_MEMBER_ID if evicted else request.member_id
            self._answer(waiter, JoinAnswer(refusal.code, member_id))
            if evicted:  # the others may have waited for it
                self._complete_join_if_all_joined()
        return self._take_effects()

    def sync(self, request: SyncRequest, waiter: Any) -> list[Effect]:
        """A member asks for its assignment; the leader's request carries all of them."""
        try:
            member = self._check_sync(request)
        except KafkaError as refusal:
            self._answer(waiter, SyncAnswer(refusal.code))
            return self._take_effects()
        self.membership.pending_sync.discard(member.member_id)
        if not self.membership.pending_sync:
            self._cancel(DeadlineKind.SYNC)
        if self.state is GroupState.STABLE:
            self._answer(waiter, self._sync_answer(member.assignment))
            return self._take_effects()
        self._answer_sync(member, SyncAnswer(ErrorCode.rebalance_in_progress))
        member.sync_waiter = waiter
        if member.member_id == self.membership.leader_id and not self._is_assigning:
            self._is_assigning = True
            self._effects.append(Store(Assigned(self.generation_id, request.assignments)))
        return self._take_effects()

    def heartbeat(self, member_id: str, group_instance_id: str | None, generation_id: int) -> None:
        """A member's heartbeat.

        Raises:
            KafkaError: it must rejoin, or is no member.
        """
        member = self._check_member(member_id, group_instance_id, generation_id)
        self._extend_session(member)
        if self.state is GroupState.PREPARING_REBALANCE:
            raise KafkaError(ErrorCode.rebalance_in_progress)

    def leave(self, leaving: Sequence[LeavingMember]) -> tuple[list[ErrorCode], list[Effect]]:
        """Members leave; one error code for each of them, in order."""
        codes = [self._leave_one(each) for each in leaving]
        if ErrorCode.none in codes:
            if self.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
                reasons = (each.reason for each in leaving if each.reason)
                self._prepare_rebalance(f"members left: {', '.join(reasons)}")
            else:
                self._complete_join_if_all_joined()
        return codes, self._take_effects()

    def check_offset_commit(self, committer: Committer) -> None:
        """Check that the client may commit offsets.

        Raises:
            KafkaError: it may not.
        """
        member_id, generation_id = committer.member_id, committer.generation_id
        group_instance_id = committer.group_instance_id
        if self.state is GroupState.DEAD:
            raise KafkaError(ErrorCode.coordinator_not_available)
        if generation_id < 0 and self.state is GroupState.EMPTY:
            return  # a consumer that assigns partitions to itself, or an administrator
        if generation_id < 0 and not member_id and group_instance_id is None:
            if committer.is_transactional:
                return  # its first versions do not name the member
            raise KafkaError(ErrorCode.unknown_member_id)
        self._check_member(member_id, group_instance_id, generation_id)
        if committer.is_transactional:
            return
        if self.state is GroupState.COMPLETING_REBALANCE:
            raise KafkaError(ErrorCode.rebalance_in_progress)

    def note_commit(self, committer: Committer) -> None:
        """A member's commit counts as a heartbeat, but for one in a transaction."""
        member = self.membership.members.get(committer.member_id)
        if member is not None and not committer.is_transactional:
            self._extend_session(member)

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Any client may fetch offsets."""

    # -- what is written, and what comes of it -----------------------------------------------

    def awaits(self, purpose: Purpose) -> bool:
        """Whether the record is still to be written; if not, no request waits for it any more."""
        if isinstance(purpose, Assigned):
            # Members may have come and gone in the meantime; then this generation is history.
            is_current = purpose.generation_id == self.generation_id
            return is_current and self.state is GroupState.COMPLETING_REBALANCE
        if isinstance(purpose, StaticMemberReplaced):
            # A rebalance answers the member, too.
            member = self.membership.members.get(purpose.new_member_id)
            is_waiting = member is not None and member.join_waiter is not None
            return is_waiting and self.state is GroupState.STABLE
        return isinstance(purpose, Created) or self.state is GroupState.EMPTY

    def to_store(self, purpose: Purpose) -> Work[GroupMetadata | None]:
        """The group's record; None if the group does not await it any more."""
        if isinstance(purpose, Created):
            return GroupMetadata(None, 0, None, None, self.state_timestamp_ms, ())
        assigned = None
        if isinstance(purpose, Assigned):
            assigned = purpose.assignments
            for member_id, assignment in purpose.asked:
                if member_id in self.membership.members:
                    assigned[member_id] = assignment
                yield
        stored = list[MemberMetadata]()
        for some in in_steps(self.membership.members.values()):
            if not self.awaits(purpose):
                return None
            stored += [self._to_store_of(each, assigned) for each in some]
            yield
        if not self.awaits(purpose):
            return None
        return GroupMetadata(
            self.protocol_type,
            self.generation_id,
            self.protocol_name,
            self.membership.leader_id,
            self.state_timestamp_ms,
            tuple(stored),
        )

    def _to_store_of(self, member: Member, assigned: Mapping[str, bytes] | None) -> MemberMetadata:
        """`assigned`: assignments that are not the members' yet."""
        known = member.assignment if assigned is None else assigned.get(member.member_id, b"")
        return MemberMetadata(
            member.member_id,
            member.group_instance_id,
            member.client_id,
            member.client_host,
            member.rebalance_timeout_ms,
            member.session_timeout_ms,
            member.metadata(self.protocol_name),
            known,
        )

    def in_log(self, metadata: GroupMetadata) -> None:
        """The record is in the log; `stored` comes when its outcome is known."""
        self.records_in_log += 1
        self._note_in_log(metadata)

    def stored(self, store: Store, error: ErrorCode | None) -> list[Effect]:
        """The outcome of a `Store`; `error` is the one for clients, None is success.

        With an error the record may be in the log all the same, if it was not confirmed in time.
        """
        purpose = store.purpose
        if not self.awaits(purpose):
            return []
        if isinstance(purpose, Assigned):
            self._complete_sync(purpose.assignments, error)
        elif isinstance(purpose, StaticMemberReplaced):
            member = self.membership.members[purpose.new_member_id]
            self._complete_replacement(member, purpose, error)
        elif isinstance(purpose, Created) and error is not None and not self.records_in_log:
            self._die(error)
        elif isinstance(purpose, Emptied) and error is not None:
            self._schedule(DeadlineKind.JOIN, EMPTIED_AGAIN_MS)
        return self._take_effects()

    # -- questions -------------------------------------------------------------------------

    @property
    def kind(self) -> GroupKind:
        return GroupKind.CLASSIC

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def is_deletable(self) -> bool:
        return self.state is GroupState.EMPTY and not self.membership.pending_join

    def tombstones(self) -> list[GroupRecord]:
        return [(GroupKey(self.group_id), None)]

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a consumer of this group reads the topic; if that cannot be known, yes."""
        if self.subscribed_topics is None:
            return self.protocol_type == CONSUMER_PROTOCOL_TYPE
        return topic in self.subscribed_topics

    def check_delete(self) -> None:
        """
        Raises:
            KafkaError: NON_EMPTY_GROUP.
        """
        if self.state is not GroupState.EMPTY:
            raise KafkaError(ErrorCode.non_empty_group)

    def check_offset_delete(self) -> None:
        """Offsets of a live group can be deleted only if it is known what it reads.

        Raises:
            KafkaError: NON_EMPTY_GROUP.
        """
        if self.state is not GroupState.EMPTY and self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            raise KafkaError(ErrorCode.non_empty_group)

    def retention_starts_ms(self, commit_timestamp_ms: int) -> int | None:
        """From when the retention of an offset counts; None while it may not expire (KIP-211)."""
        if self.protocol_type is None:
            return commit_timestamp_ms
        if self.state is GroupState.EMPTY:
            known = self.state_timestamp_ms is not None
            return self.state_timestamp_ms if known else commit_timestamp_ms
        if self.state is GroupState.STABLE and self.subscribed_topics is not None:
            return commit_timestamp_ms
        return None

    # -- checks ----------------------------------------------------------------------------

    def _check_member(
        self, member_id: str, group_instance_id: str | None, generation_id: int
    ) -> Member:
        if self.state is GroupState.DEAD:
            raise KafkaError(ErrorCode.coordinator_not_available)
        member = self.membership.validate(member_id, group_instance_id)
        if generation_id != self.generation_id:
            raise KafkaError(ErrorCode.illegal_generation)
        return member

    def _check_sync(self, request: SyncRequest) -> Member:
        member = self._check_member(
            request.member_id, request.group_instance_id, request.generation_id
        )
        if _differs(request.protocol_type, self.protocol_type) or (
            _differs(request.protocol_name, self.protocol_name)
        ):
            raise KafkaError(ErrorCode.inconsistent_group_protocol)
        if self.state is GroupState.PREPARING_REBALANCE:
            raise KafkaError(ErrorCode.rebalance_in_progress)
        return member

    def _check_join(self, request: JoinRequest) -> None:
        if self.state is GroupState.DEAD:
            raise KafkaError(ErrorCode.coordinator_not_available)
        if not self._has_room_for(request.member_id):
            self.membership.remove(request.member_id)
            raise KafkaError(ErrorCode.group_max_size_reached)
        if self.state is GroupState.EMPTY:
            supported = bool(request.protocol_type and request.protocols)
        else:
            supported = self.protocol_type == request.protocol_type
            supported = supported and self.membership.supported_by_all(request.protocols)
        if not supported or not self.membership.may_name(request.protocols):
            raise KafkaError(ErrorCode.inconsistent_group_protocol)

    def _has_room_for(self, member_id: str) -> bool:
        if self.state is GroupState.EMPTY:
            return True
        member = self.membership.members.get(member_id)
        if self.state is GroupState.PREPARING_REBALANCE:
            # Members that rejoin first stay: the group may be larger than a lowered maximum.
            is_joined = member is not None and member.join_waiter is not None
            return is_joined or self.membership.awaiting_join < self._rules.group_max_size
        return member is not None or len(self.membership.members) < self._rules.group_max_size

    # -- joining and leaving ---------------------------------------------------------------

    def _join_as_new(self, request: JoinRequest, waiter: Any) -> None:
        instance_id = request.group_instance_id
        owner = request.client_id if instance_id is None else instance_id
        member_id = f"{owner}-{self._new_id()}"
        if request.group_instance_id is not None:
            current_id = self.membership.static_member_id(request.group_instance_id)
            if current_id is None:
                self._add_member(request, member_id, waiter)
            else:
                self._replace_static_member(request, current_id, member_id, waiter)
        elif request.requires_known_member_id:
            # KIP-394: a client whose first answer gets lost must not leave a dead member here.
            self.membership.pending_join.add(member_id)
            self._schedule(DeadlineKind.SESSION, request.session_timeout_ms, member_id)
            self._answer(waiter, JoinAnswer(ErrorCode.member_id_required, member_id))
        else:
            self._add_member(request, member_id, waiter)

    def _join_again(self, request: JoinRequest, waiter: Any) -> None:
        member = self.membership.validate(request.member_id, request.group_instance_id)
        is_unchanged = member.protocols == request.protocols
        is_leader = member.member_id == self.membership.leader_id
        if self.state is GroupState.COMPLETING_REBALANCE and is_unchanged:
            # Its answer was lost: it gets the same one again.
            if is_leader:
                self._tell_leader(waiter, self._join_answer(member.member_id))
            else:
                self._answer(waiter, self._join_answer(member.member_id))
        elif self.state is GroupState.STABLE and is_unchanged and not is_leader:
            self._answer(waiter, self._join_answer(member.member_id))
        else:
            # A leader rejoins a stable group because something that it knows has changed.
            self._update_member(member, request, waiter)
            self._rebalance_or_complete_join(f"{member.member_id} rejoins: {request.reason}")

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
            self.protocol_type = request.protocol_type
        self._joined_during_delay = self._initial_delay_ms is not None
        self.membership.add(member)
        self._schedule(DeadlineKind.SESSION, NEW_MEMBER_JOIN_TIMEOUT_MS, member_id)
        self._rebalance_or_complete_join(f"{member_id} joins: {request.reason}")

    def _leave_one(self, leaving: LeavingMember) -> ErrorCode:
        member_id, instance_id, _ = leaving
        if self.state is GroupState.DEAD:
            return ErrorCode.coordinator_not_available
        if member_id in self.membership.pending_join:
            self.membership.remove(member_id)
            self._cancel(DeadlineKind.SESSION, member_id)
            return ErrorCode.none
        if member_id == NO_MEMBER_ID and instance_id is not None:
            # An administrator removes a static member by its name alone.
            member_id = self.membership.static_member_id(instance_id) or NO_MEMBER_ID
        try:
            self._remove_member(self.membership.validate(member_id, instance_id))
        except KafkaError as refusal:
            return refusal.code
        return ErrorCode.none


def _differs(asked: str | None, actual: str | None) -> bool:
    """Whether the protocols differ; older clients name none, and before a vote there is none."""
    return asked is not None and actual is not None and asked != actual
