"""ShareGroupDescribe (key 77), version 1."""

from __future__ import annotations

from uuid import UUID

from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.schema.declaration import message
from drumlin.wire.schema.types import Int32, Milliseconds32


@message
class ShareGroupDescribeRequest:
    group_ids: tuple[str, ...] = ()
    include_authorized_operations: bool


@message
class TopicPartitions:
    topic_id: UUID | None
    topic_name: str
    partitions: tuple[Int32, ...] = ()


@message
class Assignment:
    topic_partitions: tuple[TopicPartitions, ...]


@message
class Member:
    member_id: str
    rack_id: str | None = None
    member_epoch: Int32
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...] = ()
    assignment: Assignment


@message
class DescribedGroup:
    error_code: ErrorCode
    error_message: str | None = None
    group_id: str
    group_state: str
    group_epoch: Int32
    assignment_epoch: Int32
    assignor_name: str
    members: tuple[Member, ...]
    authorized_operations: Int32 = -2147483648


@message
class ShareGroupDescribeResponse:
    throttle_time: Milliseconds32
    groups: tuple[DescribedGroup, ...]
