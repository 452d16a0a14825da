"""A group's current generation: its state, its protocol, and the topics that members read.

Enforces the allowed state transitions, but does not decide when they happen. Answers no requests,
and sets no deadlines.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from drumlin.clock import Clock
from drumlin.coordination.groups.classic.membership import Membership, in_steps
from drumlin.coordination.groups.classic.records import GroupMetadata
from drumlin.coordination.groups.classic.subscription import CONSUMER_PROTOCOL_TYPE, add_topics
from drumlin.coordination.groups.every_kind.messages import NO_LEADER, JoinAnswer, SyncAnswer
from drumlin.coordination.groups.every_kind.states import (
    LEGAL_TRANSITIONS,
    GroupState,
    IllegalTransition,
)
from drumlin.turns import give_way
from drumlin.wire.error_codes import ErrorCode

_log = logging.getLogger(__name__)


class Generation:
    """The state of a group, and the number and the protocol of its generation."""

    def __init__(self, group_id: str, membership: Membership, clock: Clock) -> None:
        self.id = 0
        self.state = GroupState.EMPTY
        self.state_timestamp_ms: int | None = clock.wall_ms()
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.subscribed_topics: AbstractSet[str] | None = None
        """The topics that members read; None if they are unknown."""
        self._group_id = group_id
        self._membership = membership
        self._clock = clock

    @property
    def name(self) -> tuple[str, int]:
        """The group's id and generation, for the log."""
        return self._group_id, self.id

    def is_current(self, generation_id: int) -> bool:
        """Whether the generation has begun, and no rebalance has begun since."""
        has_begun = self.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE)
        return has_begun and self.id == generation_id

    # -- transitions -------------------------------------------------------------------------

    async def restore(self, metadata: GroupMetadata) -> None:
        """Restore the generation from a record; the members were restored before."""
        self.id = metadata.generation_id
        self.protocol_type = metadata.protocol_type
        self.protocol_name = metadata.protocol_name
        self.state_timestamp_ms = metadata.state_timestamp_ms
        if metadata.members:
            self.protocol_name = metadata.protocol_name or ""
            self.state = GroupState.STABLE
            for _ in self.read_subscriptions(self.id):
                await give_way()
        else:
            self.state = GroupState.EMPTY
            self._read_nothing()

    def transition_to(self, state: GroupState) -> None:
        if state not in LEGAL_TRANSITIONS[self.state]:
            raise IllegalTransition(f"{self._group_id}: {self.state.value} to {state.value}")
        self.state = state
        self.state_timestamp_ms = self._clock.wall_ms()

    def begin_next(self) -> None:
        """Begin the next generation with the present members; without members, become empty."""
        self.id += 1
        if self._membership.members:
            self.protocol_name = self._membership.elect_protocol()
            self.transition_to(GroupState.COMPLETING_REBALANCE)
            self.subscribed_topics = None
        else:
            self.protocol_name = None
            self.transition_to(GroupState.EMPTY)
            self._read_nothing()

    # -- answers to members ------------------------------------------------------------------

    def join_answer(
        self, member_id: str, *, leader_id: str | None = None, skip_assignment: bool = False
    ) -> JoinAnswer:
        """The answer to a join, without the list of members (only the leader gets that list)."""
        return JoinAnswer(
            ErrorCode.none,
            member_id,
            self.id,
            self.protocol_type,
            self.protocol_name,
            leader_id or self._membership.leader_id or NO_LEADER,
            skip_assignment,
        )

    def sync_answer(self, assignment: bytes) -> SyncAnswer:
        return SyncAnswer(ErrorCode.none, self.protocol_type, self.protocol_name, assignment)

    # -- subscriptions, and the retention of committed offsets -------------------------------

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a consumer reads the topic; True if that is unknown."""
        if self.subscribed_topics is None:
            return self._are_consumers
        return topic in self.subscribed_topics

    def retention_starts_ms(self, commit_timestamp_ms: int) -> int | None:
        """The start of an offset's retention time (KIP-211); None while it may not expire."""
        if self.protocol_type is None:
            return commit_timestamp_ms
        if self.state is GroupState.EMPTY:
            emptied_ms = self.state_timestamp_ms
            return commit_timestamp_ms if emptied_ms is None else emptied_ms
        if self.state is GroupState.STABLE and self.subscribed_topics is not None:
            return commit_timestamp_ms
        return None

    @property
    def _are_consumers(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    def read_subscriptions(self, generation_id: int) -> Iterator[None]:
        """Find the topics to which a generation subscribes; stop early if the generation ends."""
        topics, read = set[str](), set[bytes]()
        if not self._are_consumers:
            return
        for some in in_steps(self._membership.members.values()):
            if not self.is_current(generation_id):
                return
            unread = {each.metadata(self.protocol_name) for each in some} - read
            read |= unread  # usually empty, as most members have the same subscription
            try:
                for each in unread:
                    yield from add_topics(each, topics)
            except ValueError as error:
                _log.warning("group %s, generation %d: no subscription: %s", *self.name, error)
                return
            yield
        if self.is_current(generation_id):
            self.subscribed_topics = topics

    def _read_nothing(self) -> None:
        self.subscribed_topics = frozenset() if self._are_consumers else None
