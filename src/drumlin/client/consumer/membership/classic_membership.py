"""A member of a classic group: its joins, syncs, heartbeats and leave, and its partitions.

    UNJOINED -> PREPARING -> JOINING -> SYNCING -> STABLE -> PREPARING ...

In PREPARING the user's thread gives up partitions before a join: all in an eager group, in a
cooperative one only those of topics no longer subscribed to. The join waits for the user to poll;
heartbeats continue meanwhile. In STABLE the user's thread takes over the assignment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, NamedTuple

from drumlin.client.admin.committed_offsets import GroupMetadata
from drumlin.client.consumer.assignors import OwnAssignor, is_cooperative
from drumlin.client.consumer.assignors.sticky import Claim, cooperative_user_data, sticky_user_data
from drumlin.client.consumer.assignors.subscription import MemberSubscription
from drumlin.client.consumer.membership.membership import (
    NO_PARTITIONS,
    RETRY_S,
    Duty,
    DutyKind,
    Leave,
    Partitions,
    Wait,
    passes,
)
from drumlin.client.consumer.membership.users_side import UsersSide
from drumlin.wire.embedded_protocol import NO_GENERATION
from drumlin.wire.error_codes import ErrorCode

_NOBODY: Final = ""

#: The group has removed this member, or its generation is over.
_OUT: Final = frozenset({ErrorCode.unknown_member_id, ErrorCode.illegal_generation})


class Phase(Enum):
    UNJOINED = auto()
    PREPARING = auto()
    JOINING = auto()
    SYNCING = auto()
    STABLE = auto()
    LEAVING = auto()  # max_poll_interval_ms is exceeded; LeaveGroup is sent next
    AWAY = auto()  # left after that; the next poll joins again
    CLOSED = auto()
    FAILED = auto()


class Join(NamedTuple):
    """JoinGroup: `protocols` by name, in order of preference."""

    member_id: str
    protocols: tuple[tuple[str, MemberSubscription], ...]


class Sync(NamedTuple):
    """SyncGroup; the leader's request carries the assignment."""

    generation_id: int
    member_id: str
    protocol: str
    members: tuple[tuple[str, str | None, bytes], ...] | None  # id, instance id, subscription


class Beat(NamedTuple):
    generation_id: int
    member_id: str


class Joined(NamedTuple):
    """The response to a successful JoinGroup."""

    generation_id: int
    member_id: str
    leader_id: str
    protocol: str
    members: tuple[tuple[str, str | None, bytes], ...]
    skip_assignment: bool = False


Step = Join | Sync | Beat | Leave | Wait


@dataclass(frozen=True, slots=True)
class ClassicOptions:
    group_id: str
    group_instance_id: str | None
    assignors: tuple[str | OwnAssignor, ...]
    heartbeat_interval_s: float
    max_poll_interval_s: float
    rack: str | None = None


class ClassicMembership(UsersSide):
    """The state machine of one member. Times are seconds of the caller's clock."""

    def __init__(self, options: ClassicOptions, now: float) -> None:
        super().__init__(options.max_poll_interval_s, now)
        self._options = options
        self._is_cooperative = is_cooperative(options.assignors)
        self._topics: frozenset[str] | None = None
        self._joined_topics: frozenset[str] = frozenset()
        self._led_counts: Mapping[str, int] | None = (
            None  # the partition counts on which this leader's assignment is based
        )
        self.phase = Phase.UNJOINED
        self.failure: ErrorCode | None = None
        self._member_id = _NOBODY
        self._generation_id = NO_GENERATION
        self._joined: Joined | None = None
        self._target: Partitions | None = None  # assigned, not yet taken over
        self._claim = Claim(NO_PARTITIONS, NO_GENERATION)
        self._rejoins_after_duty = False
        self._not_before = now
        self._next_beat = now

    # -- what to send --------------------------------------------------------------------

    def next_step(self, now: float) -> Step:
        """The next request to send; the same one until its outcome is reported."""
        self._notice_idleness(now)
        if self.phase is Phase.LEAVING:
            return Leave(self._member_id, "the consumer did not poll in time")
        if self.phase in (Phase.AWAY, Phase.CLOSED, Phase.FAILED) or self._topics is None:
            return Wait(None)
        if self.phase is Phase.UNJOINED and not self._has_lost:
            self.phase = Phase.PREPARING
        if self.phase is Phase.PREPARING and self.duty is None and not self._is_on_duty:
            self.phase = Phase.JOINING
        if now < self._not_before:
            return Wait(self._not_before)
        if self.phase is Phase.JOINING:
            return self._join()
        if self.phase is Phase.SYNCING:
            return self._sync()
        if self._generation_id == NO_GENERATION:
            return Wait(None)
        if now >= self._next_beat:
            return Beat(self._generation_id, self._member_id)
        return Wait(min(self._next_beat, self._idle_at))

    def _join(self) -> Join:
        assert self._topics is not None
        self._joined_topics = self._topics
        topics = tuple(sorted(self._topics))
        return Join(
            self._member_id,
            tuple(self._subscription(each, topics) for each in self._options.assignors),
        )

    def _subscription(
        self, assignor: str | OwnAssignor, topics: tuple[str, ...]
    ) -> tuple[str, MemberSubscription]:
        """The assignor's name, and the subscription for it."""
        data, name = None, assignor if isinstance(assignor, str) else assignor.name
        if isinstance(assignor, OwnAssignor):
            data = assignor.user_data()
        elif assignor == "sticky":
            data = sticky_user_data(self._claim)
        elif assignor == "cooperative-sticky":
            data = cooperative_user_data(self._generation_id)
        rack = self._options.rack
        said = MemberSubscription(topics, data, self._owned, self._generation_id, rack)
        return name, said

    def _sync(self) -> Sync:
        joined = self._joined
        assert joined is not None
        leads = joined.leader_id == joined.member_id and not joined.skip_assignment
        return Sync(
            joined.generation_id,
            joined.member_id,
            joined.protocol,
            joined.members if leads else None,
        )

    def _notice_idleness(self, now: float) -> None:
        if now < self._idle_at or self.phase not in (Phase.PREPARING, Phase.STABLE):
            return
        # A static member does not leave: it may come back under its instance id.
        tells = self._options.group_instance_id is None and self._member_id != _NOBODY
        self.phase = Phase.LEAVING if tells else Phase.AWAY
        if not tells:
            self._forget_membership(keep_id=False)

    # -- outcomes of requests ------------------------------------------------------------

    def member_id_given(self, member_id: str) -> None:
        """MEMBER_ID_REQUIRED: join again with this member id."""
        self._member_id = member_id

    def joined(self, answer: Joined, now: float) -> None:
        """JoinGroup succeeded: a new generation has begun."""
        if self.phase is not Phase.JOINING:
            return
        self._joined = answer
        self._led_counts = None
        self._member_id = answer.member_id
        self._generation_id = answer.generation_id
        self._next_beat = now + self._options.heartbeat_interval_s
        self.phase = Phase.SYNCING

    def led(self, partition_counts: Mapping[str, int]) -> None:
        """This member is the leader, and has assigned the partitions of these topics."""
        self._led_counts = dict(partition_counts)

    def synced(self, partitions: Partitions, now: float) -> None:
        """SyncGroup succeeded: the partitions of this member in this generation."""
        if self.phase is not Phase.SYNCING:
            return
        self.has_assignment = True
        self._target = partitions
        self._claim = Claim(partitions, self._generation_id)
        self._next_beat = now + self._options.heartbeat_interval_s
        self.phase = Phase.STABLE
        self._settle()
        if self._topics != self._joined_topics:
            self._rejoin()

    def heartbeat_succeeded(self, now: float) -> None:
        """A heartbeat succeeded."""
        self._next_beat = now + self._options.heartbeat_interval_s

    def left(self) -> None:
        """LeaveGroup was sent, or failed."""
        if self.phase is Phase.LEAVING:
            self._forget_membership(keep_id=False)
            self.phase = Phase.AWAY

    def refused(self, step: Step, code: ErrorCode, now: float) -> None:
        """A request was answered with an error."""
        if self.phase in (Phase.CLOSED, Phase.FAILED, Phase.AWAY):
            return
        if isinstance(step, Leave):
            self.left()
        elif code in _OUT:
            self._throw_out(code)
        elif code is ErrorCode.rebalance_in_progress and not isinstance(step, Join):
            self._next_beat = now + self._options.heartbeat_interval_s
            self._rejoin()
        elif passes(code) or code is ErrorCode.rebalance_in_progress:
            self.unanswered(step, now)
        else:
            self._fail(code)

    def unanswered(self, step: Step, now: float) -> None:
        """A request was not answered: lost connection, no coordinator."""
        if isinstance(step, Leave):
            self.left()
        elif self.phase not in (Phase.CLOSED, Phase.FAILED, Phase.AWAY):
            self._not_before = now + RETRY_S
            if isinstance(step, Sync):
                self._rejoin()

    def disowned(self, code: ErrorCode) -> None:
        """A commit was refused with `code`."""
        if self.phase in (Phase.CLOSED, Phase.FAILED, Phase.AWAY):
            return
        if code is ErrorCode.fenced_instance_id:
            self._fail(code)
        elif code in _OUT:
            self._throw_out(code)
        elif code is ErrorCode.rebalance_in_progress and self.phase is Phase.STABLE:
            self._rejoin()

    def _fail(self, code: ErrorCode) -> None:
        self.failure = code
        self.phase = Phase.FAILED
        self._forget_membership(keep_id=False)

    def _throw_out(self, code: ErrorCode) -> None:
        if self.phase in (Phase.JOINING, Phase.SYNCING, Phase.STABLE, Phase.PREPARING):
            self.phase = Phase.UNJOINED
            self._forget_membership(keep_id=code is ErrorCode.illegal_generation)

    def _forget_membership(self, *, keep_id: bool) -> None:
        self._generation_id = NO_GENERATION
        self._joined = None
        self._target = None
        self._rejoins_after_duty = False
        self._has_lost = bool(self._owned)
        if not keep_id:
            self._member_id = _NOBODY

    def _rejoin(self) -> None:
        if self.phase in (Phase.SYNCING, Phase.STABLE):
            self._target = None
            self._rejoins_after_duty = False
            self.phase = Phase.PREPARING

    # -- the user's side -----------------------------------------------------------------

    @property
    def credentials(self) -> GroupMetadata | None:
        """The member's id and generation; None while it is not a member."""
        if self._generation_id == NO_GENERATION:
            return None
        return GroupMetadata(
            self._options.group_id,
            self._generation_id,
            self._member_id,
            self._options.group_instance_id,
        )

    def polled(self, now: float) -> None:
        """The user polls again: a member that is AWAY rejoins."""
        super().polled(now)
        if self.phase is Phase.AWAY:
            self.phase = Phase.UNJOINED

    @property
    def duty(self) -> Duty | None:
        """The callback that the user's thread must run before the membership continues."""
        if self._has_lost:
            return Duty(DutyKind.LOSE, self._owned)
        if self.phase is Phase.PREPARING:
            revoked = self._to_give_up_before_join()
            return Duty(DutyKind.REVOKE, revoked) if revoked else None
        if self._target is None:
            return None
        if self._owned - self._target:
            return Duty(DutyKind.REVOKE, self._owned - self._target)
        return Duty(DutyKind.ASSIGN, self._target - self._owned)

    def _to_give_up_before_join(self) -> Partitions:
        if not self._is_cooperative:
            return self._owned
        wanted = self._topics or frozenset()
        return frozenset(each for each in self._owned if each[0] not in wanted)

    def duty_done(self, duty: Duty) -> None:
        """The user's thread has finished its duty; the member may have been fenced meanwhile."""
        self._is_on_duty = False
        if duty.kind is DutyKind.ASSIGN:
            # Partitions assigned in a generation that is over are lost.
            self._owned |= duty.partitions
            if self._generation_id == NO_GENERATION:
                self._has_lost = True
        else:
            self._owned -= duty.partitions
            self._has_lost = self._has_lost and bool(self._owned)
            if self._is_cooperative and self._target is not None:
                # Only another rebalance can assign the revoked partitions to other members.
                self._rejoins_after_duty = True
        self._settle()

    def _settle(self) -> None:
        if self._target is not None and self._target == self._owned:
            self._target = None
            if self._rejoins_after_duty:
                self._rejoin()

    @property
    def group_topics(self) -> frozenset[str]:
        """The topics that this member watches as the leader."""
        return frozenset(self._led_counts or ())

    def topics_changed(self, wanted: frozenset[str], partition_counts: Mapping[str, int]) -> None:
        """New metadata: a member rejoins if its topics changed, a leader if the counts did."""
        self._topics = wanted
        if self.phase is not Phase.STABLE:
            return
        led = self._led_counts
        grown = led is not None and any(
            partition_counts.get(each, count) != count for each, count in led.items()
        )
        if grown or wanted != self._joined_topics:
            self._rejoin()

    def close(self) -> Leave | None:
        """End the membership; returns the LeaveGroup to send if there is a member id."""
        member_id = self._member_id
        self.phase = Phase.CLOSED
        self._forget_membership(keep_id=False)
        self._has_lost = False
        self._owned = NO_PARTITIONS
        return Leave(member_id, "the consumer was closed") if member_id != _NOBODY else None
