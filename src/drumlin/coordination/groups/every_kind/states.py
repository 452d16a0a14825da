"""The states of a group, their transitions, and a group's deadlines."""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple, Protocol

from drumlin.coordination.groups.every_kind.messages import NO_MEMBER_ID


class GroupState(Enum):
    """A state of a group; the values are Kafka's names, which clients see."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


#: State -> the states that may follow.
LEGAL_TRANSITIONS: Final[dict[GroupState, frozenset[GroupState]]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.PREPARING_REBALANCE: frozenset(
        {GroupState.COMPLETING_REBALANCE, GroupState.EMPTY, GroupState.DEAD}
    ),
    GroupState.COMPLETING_REBALANCE: frozenset(
        {GroupState.STABLE, GroupState.PREPARING_REBALANCE, GroupState.DEAD}
    ),
    GroupState.STABLE: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.DEAD: frozenset(),
}


class IllegalTransition(AssertionError):
    """A bug in the broker: the group's state does not allow this transition."""


#: How long a new member may wait in a join, so that the join ends even if the client disconnects.
#: Not configurable, as in Kafka.
NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 300_000
#: The pause before another attempt to write the record of an empty group.
EMPTIED_AGAIN_MS: Final = 5_000


class DeadlineKind(Enum):
    SESSION = "session"  # a member has not sent a heartbeat
    JOIN = "join"  # members have not rejoined
    SYNC = "sync"  # members have not sent SyncGroup
    REVOCATION = "revocation"  # a member of the consumer protocol has not given up partitions

    # Every heartbeat looks up a deadline, and Enum's own hash is slow. Members are singletons.
    __hash__ = object.__hash__


class Deadline(NamedTuple):
    """The key of a deadline, with the member's id if it concerns one member."""

    group_id: str
    kind: DeadlineKind
    member_id: str = NO_MEMBER_ID


class GroupRules(Protocol):
    """The part of the broker's configuration that groups use; the names are Kafka's keys."""

    @property
    def group_initial_rebalance_delay_ms(self) -> int: ...
    @property
    def group_max_size(self) -> int: ...
    @property
    def group_consumer_assignors(self) -> tuple[str, ...]: ...
    @property
    def group_consumer_max_size(self) -> int: ...
    @property
    def group_consumer_migration_policy(self) -> str: ...
    @property
    def group_consumer_regex_refresh_interval_ms(self) -> int: ...
