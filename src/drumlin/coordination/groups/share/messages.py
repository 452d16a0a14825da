"""Requests and answers of share group members. Plain values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple
from uuid import UUID

from drumlin.coordination.groups.every_kind.group_record import GroupRecord
from drumlin.coordination.groups.share.records import Assignment, TopicPartitions
from drumlin.wire.error_codes import KafkaError

JOIN_EPOCH: Final = 0
#: Of a group that has had no member; 0 would be taken for a member that joins.
FIRST_EPOCH: Final = 1
LEAVE_EPOCH: Final = -1

#: Of a target assignment, what is written in the turn in which it is decided.
_MEMBERS_AT_ONCE: Final = 50
_PARTITIONS_AT_ONCE: Final = 20_000

Topics = Mapping[UUID, TopicPartitions]
#: Partition -> what happened to it; `None` is success.
Outcome = Mapping[int, KafkaError | None]
#: Topic name -> its id, and what went wrong; without an id there is nothing of it to delete.
Deleted = dict[str, tuple[UUID | None, KafkaError | None]]


class ShareLimits(NamedTuple):
    """Limits from the broker's configuration."""

    max_size: int
    initialize_retry_ms: int


class ShareHeartbeat(NamedTuple):
    """A member shows that it lives, or joins."""

    member_id: str
    member_epoch: int
    rack_id: str | None
    """None: as before; so are the topics."""
    client_id: str
    client_host: str
    topics: tuple[str, ...] | None


class ShareHeartbeatAnswer(NamedTuple):
    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int = 0
    assignment: Assignment | None = None
    """None: as the member knows it."""


class NextTarget(NamedTuple):
    """The new part of a target assignment. The record of its epoch is written after it."""

    assignments: Mapping[str, Assignment]
    """By member id, of all members; empty: there is no new one."""
    records: list[GroupRecord]

    @property
    def is_large(self) -> bool:
        """Whether it takes more than half a millisecond to be written, or more than a batch."""
        if len(self.records) > _MEMBERS_AT_ONCE:
            return True
        topics = (these for _, one in self.records if one for these in one.values())
        return sum(map(len, topics)) > _PARTITIONS_AT_ONCE


class Considered(NamedTuple):
    """The decision on a heartbeat: records to write, and the answer once they are written.

    next_target: of a new target assignment, what is written before `records`.
    to_initialize: partitions that the records say are being initialised, which is then to be done.
    is_current: whether the group is still as it was when this was considered.
    is_late: whether an assignment is due that was left, as the group changes all the time.
    """

    records: list[GroupRecord]
    answer: ShareHeartbeatAnswer
    to_initialize: Topics
    state_epoch: int
    next_target: NextTarget
    is_current: Callable[[], bool]
    is_late: bool


class DescribedMember(NamedTuple):
    member_id: str
    rack_id: str | None
    member_epoch: int
    client_id: str
    client_host: str
    topics: tuple[str, ...]
    assignment: Assignment


class TopicOutcome(NamedTuple):
    """The outcome of a request for one topic; without an id there is no such topic."""

    name: str
    topic_id: UUID | None
    partitions: Outcome
