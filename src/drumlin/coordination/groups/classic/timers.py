"""The deadlines of one group, set by their time from now.

When a deadline has passed, `Group.expire` is called. This file only sets and cancels deadlines at
the request of others.
"""

from __future__ import annotations

from drumlin.clock import Clock
from drumlin.coordination.deadlines import DeadlineQueue
from drumlin.coordination.groups.classic.membership import Member
from drumlin.coordination.groups.every_kind.messages import NO_MEMBER_ID
from drumlin.coordination.groups.every_kind.states import Deadline, DeadlineKind


class Timers:
    """One group's deadlines, in a queue shared by all groups."""

    __slots__ = ("_clock", "_deadlines", "_group_id")

    def __init__(self, group_id: str, clock: Clock, deadlines: DeadlineQueue[Deadline]) -> None:
        self._group_id = group_id
        self._clock = clock
        self._deadlines = deadlines

    def extend_session(self, member: Member) -> None:
        self.schedule(DeadlineKind.SESSION, member.session_timeout_ms, member.member_id)

    def schedule(self, kind: DeadlineKind, timeout_ms: int, member_id: str = NO_MEMBER_ID) -> None:
        deadline = self._clock.monotonic() + timeout_ms / 1000
        self._deadlines.schedule(Deadline(self._group_id, kind, member_id), deadline)

    def cancel(self, kind: DeadlineKind, member_id: str = NO_MEMBER_ID) -> None:
        self._deadlines.cancel(Deadline(self._group_id, kind, member_id))
