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
#: Of a group that has had no member; 0 would be taken for a member that joins.
FIRST_EPOCH: Final = 1
LEAVE_EPOCH: Final = -1

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


class ShareTarget(NamedTuple):
    """A target assignment, and the records of what is new in it, to be followed by its epoch's."""

    epoch: TargetEpoch
    assignments: dict[str, Assignment]
    """By member id, of the members for which it was computed."""
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
    """The outcome of a request for one topic; without an id there is no such topic."""

    name: str
    topic_id: UUID | None
    partitions: Outcome
