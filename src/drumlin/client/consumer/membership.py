"""What both group protocols have in common: what a member is asked to do, and by whom.

A membership is a plain state machine. It tells the *driver* which request comes next and is
told what came of it; and it tells the *user's thread* which partitions to give up or to take
(`duty`), and is told when that is done. It never waits, sends, or calls anybody.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple, Protocol

from drumlin.client.committed_offsets import GroupMetadata
from drumlin.client.offsets import TopicPartition
from drumlin.wire.errors import ErrorCode

Partitions = frozenset[TopicPartition]
NO_PARTITIONS: Partitions = frozenset()

#: How long after a failed request the next one is sent.
RETRY_S = 0.1


def passes(code: ErrorCode) -> bool:
    """Whether the same request may succeed later, perhaps at another broker."""
    return bool(code.retriable) or code is ErrorCode.unknown_server_error


class DutyKind(Enum):
    """What the user's thread is to do with partitions."""

    REVOKE = "revoke"  # commit, then give them up
    LOSE = "lose"  # give them up; somebody else may have them already
    ASSIGN = "assign"  # begin with them


class Duty(NamedTuple):
    kind: DutyKind
    partitions: Partitions


class Wait(NamedTuple):
    """Nothing to send before `until` (clock of the loop), or before something happens."""

    until: float | None


class Leave(NamedTuple):
    """Tell the group that this member goes."""

    member_id: str
    reason: str
    is_final: bool = False  # says so of a static member, too


class Membership(Protocol):
    """What `driver` and `Background` need of either protocol. Times are in seconds."""

    #: Why this member cannot go on, for good.
    failure: ErrorCode | None

    def polled(self, now: float) -> None:
        """The user's thread is in `poll`."""

    def poll_ended(self, now: float) -> None:
        """... and has left it."""

    @property
    def duty(self) -> Duty | None:
        """What the user's thread must do before anything goes on."""

    def begin_duty(self) -> Duty | None:
        """It begins with `duty`: until that is done, nobody is told what the user has."""

    def duty_done(self, duty: Duty) -> None:
        """It has done what it began, whatever has happened meanwhile."""

    @property
    def owned(self) -> Partitions:
        """The partitions that the user has."""

    @property
    def credentials(self) -> GroupMetadata | None:
        """None while this is no member."""

    def disowned(self, code: ErrorCode) -> None:
        """A commit was refused with `code`, which may mean that we are out."""

    @property
    def group_topics(self) -> frozenset[str]:
        """Topics that concern this member besides those that it wants."""

    def topics_changed(self, wanted: frozenset[str], partition_counts: Mapping[str, int]) -> None:
        """What metadata says of the topics wanted and of the group's."""

    def close(self) -> Leave | None:
        """The end; gives what to tell the group, unless there is nobody to miss us."""
