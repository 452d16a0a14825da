"""ShareGroupHeartbeat (key 76), version 1."""

from __future__ import annotations

from uuid import UUID

from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.schema.declaration import message
from drumlin.wire.schema.types import Int32, Milliseconds32


@message
class ShareGroupHeartbeatRequest:
    group_id: str
    member_id: str
    member_epoch: Int32
    rack_id: str | None = None
    subscribed_topic_names: tuple[str, ...] | None = None


@message
class TopicPartitions:
    topic_id: UUID | None
    partitions: tuple[Int32, ...] = ()


@message
class Assignment:
    topic_partitions: tuple[TopicPartitions, ...]


@message
class ShareGroupHeartbeatResponse:
    throttle_time: Milliseconds32
    error_code: ErrorCode
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: Int32
    heartbeat_interval: Milliseconds32
    assignment: Assignment | None = None
