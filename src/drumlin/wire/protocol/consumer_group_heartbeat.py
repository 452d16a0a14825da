"""ConsumerGroupHeartbeat (key 68), versions 0 to 1."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated
from uuid import UUID

from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.schema.declaration import Versions, message
from drumlin.wire.schema.types import Int32, Milliseconds32


@message
class TopicPartitions:
    topic_id: UUID | None
    partitions: tuple[Int32, ...] = ()


@message
class ConsumerGroupHeartbeatRequest:
    group_id: str
    member_id: str
    member_epoch: Int32
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout: Milliseconds32 = timedelta(milliseconds=-1)
    subscribed_topic_names: tuple[str, ...] | None = None
    subscribed_topic_regex: Annotated[str | None, Versions(1)] = None
    server_assignor: str | None = None
    topic_partitions: tuple[TopicPartitions, ...] | None


@message
class Assignment:
    topic_partitions: tuple[TopicPartitions, ...]


@message
class ConsumerGroupHeartbeatResponse:
    throttle_time: Milliseconds32
    error_code: ErrorCode
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: Int32
    heartbeat_interval: Milliseconds32
    assignment: Assignment | None = None
