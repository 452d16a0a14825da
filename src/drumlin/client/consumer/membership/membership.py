"""The interface of a member's state machine, the same for both group protocols.

The state machine tells the *driver* which request comes next, and the driver reports the response.
It tells the *user's thread* which partitions to give up or to take over (`duty`), and the thread
reports that this is done. It never waits, sends, or calls back.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple, Protocol

from drumlin.client.admin.committed_offsets import GroupMetadata
from drumlin.client.topic_partition import TopicPartition
from drumlin.wire.error_codes import ErrorCode

Partitions = frozenset[TopicPartition]
NO_PARTITIONS: Partitions = frozenset()

#: The pause after a failed request.
RETRY_S = 0.1


def passes(code: ErrorCode) -> bool:
    """Whether the same request may succeed later, possibly at another broker."""
    return bool(code.retriable) or code is ErrorCode.unknown_server_error


class DutyKind(Enum):
    """The kind of callback that the user's thread must run."""

    REVOKE = "revoke"  # commit, then give them up
    LOSE = "lose"  # give them up; other members may have them already
    ASSIGN = "assign"  # take them over


class Duty(NamedTuple):
    kind: DutyKind
    partitions: Partitions


class Wait(NamedTuple):
    """Send nothing before `until` (clock of the loop), or before the driver is woken."""

    until: float | None


class Leave(NamedTuple):
    """Tell the group that this member leaves."""

    member_id: str
    reason: str
    is_final: bool = False  # a static member leaves for good, too


class Membership(Protocol):
    """The interface of both protocols to `driver` and `ConsumerEngine`. Times are in seconds."""

    #: The reason why this member has failed for good.
    failure: ErrorCode | None
    #: Whether this member has ever had an assignment, even an empty one.
    has_assignment: bool

    def polled(self, now: float) -> None:
        """The user's thread has entered `poll`."""

    def poll_ended(self, now: float) -> None:
        """The user's thread has left `poll`."""

    @property
    def duty(self) -> Duty | None:
        """The callback that the user's thread must run before the membership continues."""

    def begin_duty(self) -> Duty | None:
        """The thread begins `duty`; until `duty_done`, `owned` is not reported."""

    def duty_done(self, duty: Duty) -> None:
        """The thread has finished its duty; the member may have been fenced meanwhile."""

    @property
    def owned(self) -> Partitions:
        """The partitions that the user's thread has taken over and not given up."""

    @property
    def credentials(self) -> GroupMetadata | None:
        """The member's id and generation or epoch; None while it is not a member."""

    def disowned(self, code: ErrorCode) -> None:
        """A commit was refused with `code`, which may mean that this member is fenced."""

    @property
    def group_topics(self) -> frozenset[str]:
        """Topics that this member must watch besides those that it subscribes to."""

    def topics_changed(self, wanted: frozenset[str], partition_counts: Mapping[str, int]) -> None:
        """New metadata: the subscribed topics, and the partition counts of the group's topics."""

    def close(self) -> Leave | None:
        """End the membership; returns the request to send, if the group knows this member."""
