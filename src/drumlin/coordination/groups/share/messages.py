"""Requests and answers of share group members. Plain values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple
from uuid import UUID

from drumlin.coordination.groups.every_kind.group_record import GroupRecord
from drumlin.coordination.groups.every_kind.target_epoch import TargetEpoch
from drumlin.coordination.groups.share.records import Assignment, TopicPartitions
from drumlin.wire.error_codes import KafkaError

JOIN_EPOCH: Final = 0
#: The epoch of a new group; a member with epoch 0 would count as joining.
FIRST_EPOCH: Final = 1
LEAVE_EPOCH: Final = -1

Topics = Mapping[UUID, TopicPartitions]
#: Partition -> error, or None on success.
Outcome = Mapping[int, KafkaError | None]
#: Topic name -> id and error of the topic; the id is None if the group has no offsets there.
Deleted = dict[str, tuple[UUID | None, KafkaError | None]]


class ShareLimits(NamedTuple):
    """Limits from the broker's configuration."""

    max_size: int
    initialize_retry_ms: int


class ShareHeartbeat(NamedTuple):
    """A member's heartbeat, which may also join or leave the group."""

    member_id: str
    member_epoch: int
    rack_id: str | None
    """None if unchanged, like the topics."""
    client_id: str
    client_host: str
    topics: tuple[str, ...] | None


class ShareHeartbeatAnswer(NamedTuple):
    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int = 0
    assignment: Assignment | None = None
    """None if unchanged since the last heartbeat."""


class ShareTarget(NamedTuple):
    """A target assignment, and the records of the changed targets; the epoch's record is last."""

    epoch: TargetEpoch
    assignments: dict[str, Assignment]
    """Assignments by member id, for the members at the time of the computation."""
    records: list[GroupRecord]


class DescribedMember(NamedTuple):
    member_id: str
    rack_id: str | None
    member_epoch: int
    client_id: str
    client_host: str
    topics: tuple[str, ...]
    assignment: Assignment


class TopicOutcome(NamedTuple):
    """The outcome of a request for one topic; the id is None if there is no such topic."""

    name: str
    topic_id: UUID | None
    partitions: Outcome
