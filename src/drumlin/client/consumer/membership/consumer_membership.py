"""A member of a KIP-848 group: the broker assigns, the member reconciles and acknowledges.

    JOINING -> STABLE; each heartbeat carries the fields that have changed since the last one.

The broker revokes partitions first, and assigns them to another member once their owner reports
that it has given them up. So a finished duty (`duty_done`) is reported at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, NamedTuple

from drumlin.client.admin.committed_offsets import GroupMetadata
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
from drumlin.wire.error_codes import ErrorCode

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
STATIC_LEAVE_EPOCH: Final = -2

#: The group has removed this member.
_FENCED: Final = frozenset({ErrorCode.unknown_member_id, ErrorCode.fenced_member_epoch})


class Phase(Enum):
    JOINING = auto()
    STABLE = auto()
    LOST = auto()  # fenced: joins again once the user has given up all partitions
    LEAVING = auto()  # max_poll_interval_ms is exceeded; a leaving heartbeat is sent next
    AWAY = auto()  # left after that; the next poll joins again
    CLOSED = auto()
    FAILED = auto()


class Beat(NamedTuple):
    """ConsumerGroupHeartbeat: with `is_full` all fields, else those that have changed."""

    member_id: str
    member_epoch: int
    is_full: bool
    owned: Partitions | None  # None: unchanged


Step = Beat | Leave | Wait


@dataclass(frozen=True, slots=True)
class ConsumerProtocolOptions:
    group_id: str
    group_instance_id: str | None
    max_poll_interval_s: float


class ConsumerMembership(UsersSide):
    """The state machine of one member. Times are seconds of the caller's clock."""

    def __init__(self, options: ConsumerProtocolOptions, member_id: str, now: float) -> None:
        super().__init__(options.max_poll_interval_s, now)
        self._options = options
        self.phase = Phase.JOINING
        self.failure: ErrorCode | None = None
        self.member_id = member_id
        self._epoch = JOIN_EPOCH
        self._target: Partitions = NO_PARTITIONS
        self._acknowledged: Partitions | None = None  # acknowledged as owned; None: nothing yet
        self._is_full = True
        self._next_beat = now
        self._not_before = now

    # -- what to send --------------------------------------------------------------------

    def next_step(self, now: float) -> Step:
        """The next request to send; the same one until its outcome is reported."""
        if self.phase is Phase.STABLE and now >= self._idle_at:
            self.phase = Phase.LEAVING
        if self.phase is Phase.LEAVING:
            return Leave(self.member_id, "the consumer did not poll in time")
        if self.phase is Phase.LOST and not self._has_lost and not self._is_on_duty:
            self.phase = Phase.JOINING
        if self.phase not in (Phase.JOINING, Phase.STABLE):
            return Wait(None)
        if now < self._not_before:
            return Wait(self._not_before)
        changed = self._has_something_to_tell()
        if self.phase is Phase.JOINING or changed or now >= self._next_beat:
            tells = changed or (self._is_full and not self._is_on_duty)
            return Beat(self.member_id, self._epoch, self._is_full, self._owned if tells else None)
        return Wait(min(self._next_beat, self._idle_at))

    def _has_something_to_tell(self) -> bool:
        if self._is_on_duty or self._owned == self._acknowledged:
            return False
        # An assignment is acknowledged once it is taken over, even if it changed nothing.
        return self._acknowledged is not None or self.duty is None

    # -- outcomes of requests ------------------------------------------------------------

    def heartbeat_succeeded(self, step: Beat, epoch: int, interval_s: float, now: float) -> None:
        """A heartbeat succeeded."""
        if self.phase not in (Phase.JOINING, Phase.STABLE):
            return
        self.phase = Phase.STABLE
        self._epoch = epoch
        self._is_full = False
        if step.owned is not None:
            self._acknowledged = step.owned
        self._next_beat = now + interval_s

    def target_received(self, partitions: Partitions) -> None:
        """The broker's target assignment for this member."""
        if self.phase is Phase.STABLE:
            self.has_assignment = True
            self._target = partitions
            if self._acknowledged != partitions:
                self._acknowledged = None

    def left(self) -> None:
        """The leaving heartbeat was sent, or failed."""
        if self.phase is Phase.LEAVING:
            self.phase = Phase.AWAY
            self._forget_membership()

    def refused(self, step: Step, code: ErrorCode, now: float) -> None:
        """A request was answered with an error."""
        if isinstance(step, Leave):
            self.left()
        elif self.phase not in (Phase.JOINING, Phase.STABLE):
            return
        elif code in _FENCED:
            self._throw_out()
            self._not_before = now + RETRY_S
        elif passes(code):
            self._is_full = True
            self._not_before = now + RETRY_S
        else:
            self._fail(code)

    def unanswered(self, step: Step, now: float) -> None:
        """A request was not answered: the broker may have processed it or not."""
        if isinstance(step, Leave):
            self.left()
        else:
            self._is_full = True
            self._not_before = now + RETRY_S

    def disowned(self, code: ErrorCode) -> None:
        """A commit was refused with `code`. Unless that fences this member, heartbeat at once."""
        if self.phase is not Phase.STABLE:
            return
        if code is ErrorCode.fenced_instance_id:
            self._fail(code)
        elif code in _FENCED:
            self._throw_out()
        else:
            self._next_beat = 0.0

    def _fail(self, code: ErrorCode) -> None:
        self.failure = code
        self.phase = Phase.FAILED
        self._forget_membership()

    def _throw_out(self) -> None:
        self.phase = Phase.LOST
        self._forget_membership()

    def _forget_membership(self) -> None:
        self._epoch = JOIN_EPOCH
        self._target = NO_PARTITIONS
        self._acknowledged = None
        self._is_full = True
        self._has_lost = bool(self._owned)

    # -- the user's side -----------------------------------------------------------------

    @property
    def credentials(self) -> GroupMetadata | None:
        """The member's id and epoch; None while it is not a member."""
        if self.phase is not Phase.STABLE:
            return None
        instance = self._options.group_instance_id
        return GroupMetadata(self._options.group_id, self._epoch, self.member_id, instance)

    def polled(self, now: float) -> None:
        """The user polls again: a member that is AWAY rejoins."""
        super().polled(now)
        if self.phase is Phase.AWAY:
            self.phase = Phase.LOST

    @property
    def duty(self) -> Duty | None:
        """The callback that the user's thread must run before the membership continues."""
        if self._has_lost:
            return Duty(DutyKind.LOSE, self._owned)
        if self.phase is not Phase.STABLE:
            return None
        if self._owned - self._target:
            return Duty(DutyKind.REVOKE, self._owned - self._target)
        if self._target - self._owned:
            return Duty(DutyKind.ASSIGN, self._target - self._owned)
        return None

    def duty_done(self, duty: Duty) -> None:
        """The user's thread has finished its duty; the member may have been fenced meanwhile."""
        self._is_on_duty = False
        if duty.kind is DutyKind.ASSIGN:
            # Partitions revoked meanwhile are given up in the next duty.
            self._owned |= duty.partitions
            self._has_lost = self._has_lost or self.phase is not Phase.STABLE
        else:
            self._owned -= duty.partitions
        self._has_lost = self._has_lost and bool(self._owned)

    @property
    def group_topics(self) -> frozenset[str]:
        """No topics: the broker watches them."""
        return frozenset()

    def topics_changed(self, wanted: frozenset[str], partition_counts: Mapping[str, int]) -> None:
        """Does nothing: the broker watches the topics."""

    def close(self) -> Leave | None:
        """End the membership; returns the leaving heartbeat to send, if this is a member."""
        is_member = self.phase in (Phase.STABLE, Phase.JOINING)
        self.phase = Phase.CLOSED
        self._forget_membership()
        self._has_lost = False
        self._owned = NO_PARTITIONS
        return Leave(self.member_id, "the consumer was closed") if is_member else None
