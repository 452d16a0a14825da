"""A member's state machine as the driver sees it, whichever group protocol it speaks.

It tells the *driver* which request comes next, and the driver reports the answer. It tells the
*user's thread* which partitions to give up or to take over (`duty`), and the thread reports when
that is done. It never waits, sends, or calls back.
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

#: How long after a failed request the next one is sent.
RETRY_S = 0.1


def passes(code: ErrorCode) -> bool:
    """Whether the same request may succeed later, possibly at another broker."""
    return bool(code.retriable) or code is ErrorCode.unknown_server_error


class DutyKind(Enum):
    """The kind of callback that the user's thread is to run."""

    REVOKE = "revoke"  # commit, then give them up
    LOSE = "lose"  # give them up; other members may have them already
    ASSIGN = "assign"  # begin with them


class Duty(NamedTuple):
    kind: DutyKind
    partitions: Partitions


class Wait(NamedTuple):
    """A step in which nothing is sent before `until` (clock of the loop), or before an event."""

    until: float | None


class Leave(NamedTuple):
    """Tell the group that this member leaves."""

    member_id: str
    reason: str
    is_final: bool = False  # a static member leaves for good, too


class Membership(Protocol):
    """The interface of both protocols to `driver` and `ConsumerEngine`. Times are in seconds."""

    #: Why this member has failed for good.
    failure: ErrorCode | None

    def polled(self, now: float) -> None:
        """The user's thread is in `poll`."""

    def poll_ended(self, now: float) -> None:
        """... and has left it."""

    @property
    def duty(self) -> Duty | None:
        """The callback that the user's thread must run before the membership goes on."""

    def begin_duty(self) -> Duty | None:
        """The thread begins `duty`: until that is done, `owned` is not reported."""

    def duty_done(self, duty: Duty) -> None:
        """The thread has finished its duty, whatever has happened meanwhile."""

    @property
    def owned(self) -> Partitions:
        """The partitions that the user has."""

    @property
    def credentials(self) -> GroupMetadata | None:
        """The member's id and generation or epoch; None while it is not a member."""

    def disowned(self, code: ErrorCode) -> None:
        """A commit was refused with `code`, which may mean that this member is fenced."""

    @property
    def group_topics(self) -> frozenset[str]:
        """Topics that concern this member besides those that it wants."""

    def topics_changed(self, wanted: frozenset[str], partition_counts: Mapping[str, int]) -> None:
        """New metadata of the wanted topics and of the group's topics."""

    def close(self) -> Leave | None:
        """End; returns the request to send, if the group knows this member."""
