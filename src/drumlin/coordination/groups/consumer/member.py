"""A member of a consumer group: its subscription and its progress. Plain values.

A member moves from one target assignment to the next by itself: first it revokes partitions
(unrevoked partitions), then it waits for others to release theirs (unreleased partitions), then it
is stable. Its epoch is that of the target assignment that it follows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final
from uuid import UUID

#: Special epochs: a member joins, leaves, or (if static) leaves temporarily.
JOINING: Final = 0
LEAVING: Final = -1
LEAVING_FOR_A_WHILE: Final = -2
#: The previous epoch of a member in its first epoch.
NO_EPOCH: Final = -1

#: Topic id -> partitions.
Partitions = Mapping[UUID, frozenset[int]]
#: Topic id -> partition -> the epoch in which it was assigned.
PartitionEpochs = Mapping[UUID, Mapping[int, int]]


class MemberState(IntEnum):
    """A member's state; the values are those in Kafka's records."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127


@dataclass(frozen=True, slots=True)
class ClassicProtocols:
    """The protocols of a member that uses the classic protocol in a consumer group."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    """Name and metadata of each protocol, the preferred protocol first."""

    @property
    def chosen(self) -> str:
        return self.protocols[0][0]


@dataclass(frozen=True, slots=True)
class Subscription:
    """A member's subscription to topics, and its client."""

    group_instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    regex: str | None = ""
    """A pattern of topic names, in addition to `topics`; empty or None if there is none."""
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    classic: ClassicProtocols | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """A member's progress towards the target assignment."""

    epoch: int = JOINING
    previous_epoch: int = NO_EPOCH
    state: MemberState = MemberState.STABLE
    assigned: PartitionEpochs = field(default_factory=dict)
    revoking: PartitionEpochs = field(default_factory=dict)
    """Partitions that the member must still revoke."""

    def has_reached(self, target_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == target_epoch


@dataclass(frozen=True, slots=True)
class Member:
    member_id: str
    subscription: Subscription = Subscription()
    progress: Progress = Progress()

    @property
    def is_classic(self) -> bool:
        return self.subscription.classic is not None

    @property
    def epoch(self) -> int:
        return self.progress.epoch

    @property
    def group_instance_id(self) -> str | None:
        return self.subscription.group_instance_id


def with_epoch(partitions: Partitions, epoch: int) -> PartitionEpochs:
    """The partitions, all assigned in one epoch."""
    return {topic_id: dict.fromkeys(sorted(some), epoch) for topic_id, some in partitions.items()}


def contains(partitions: PartitionEpochs, some: Partitions) -> bool:
    """Whether all of `some` are among the partitions."""
    return all(indexes <= partitions.get(topic_id, {}).keys() for topic_id, indexes in some.items())


def intersect(partitions: PartitionEpochs, some: Partitions) -> bool:
    """Whether any of `some` is among the partitions."""
    return any(
        not indexes.isdisjoint(partitions.get(topic_id, {})) for topic_id, indexes in some.items()
    )
