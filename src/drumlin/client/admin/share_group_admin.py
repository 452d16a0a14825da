"""Administration of share groups: their members, and the start offsets of partitions.

A share group commits no offsets: for each partition it keeps a start offset, before which all
records are processed. Start offsets can be changed while the group is empty. Loads no Arrow.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Coroutine, Mapping
from typing import Any, Final, TypeVar

from drumlin.client.admin.committed_offsets import OffsetAndMetadata
from drumlin.client.admin.group_admin import (
    GroupDescription,
    ask_coordinator,
    check_coordinator,
    describe_group,
    list_groups,
)
from drumlin.client.admin.group_members import consumer_members
from drumlin.client.errors import CommitFailed
from drumlin.client.topic_partition import TopicPartition
from drumlin.peer.broker_connections import BrokerConnections
from drumlin.peer.peer_error import only
from drumlin.wire.error_codes import ErrorCode, KafkaError, error_of
from drumlin.wire.protocol.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from drumlin.wire.protocol.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from drumlin.wire.protocol.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from drumlin.wire.protocol.share_group_describe import ShareGroupDescribeRequest

T = TypeVar("T")

SHARE: Final = "share"
_NOT_FOUND: Final = (ErrorCode.group_id_not_found, ErrorCode.unknown_member_id)


async def describe_group_of_any_kind(
    connections: BrokerConnections, group: str
) -> GroupDescription:
    """State and members of a group; one that does not exist is "Dead"."""
    found = await describe_group(connections, group)
    if found.type == SHARE:
        return await describe_share_group(connections, group)
    return found


async def describe_share_group(connections: BrokerConnections, group: str) -> GroupDescription:
    """State and members of a share group."""
    request = ShareGroupDescribeRequest(group_ids=(group,), include_authorized_operations=False)

    def read(response: Any) -> GroupDescription:
        found = only(response.groups, f"group {group!r}")
        _check(found, f"group {group!r}")
        members = tuple(consumer_members(found.members))
        return GroupDescription(group, found.group_state, SHARE, members)

    return await ask_coordinator(connections, group, "share_group_describe", request, read)


async def fetch_start_offsets(
    connections: BrokerConnections, group: str
) -> dict[TopicPartition, OffsetAndMetadata]:
    """The start offsets of all partitions that have one."""
    wanted = DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None)
    request = DescribeShareGroupOffsetsRequest(groups=(wanted,))

    def read(response: Any) -> dict[TopicPartition, OffsetAndMetadata]:
        found = only(response.groups, f"group {group!r}")
        _check(found, f"offsets of group {group!r}")
        return {
            TopicPartition(topic.topic_name, part.partition_index): OffsetAndMetadata(
                part.start_offset, leader_epoch=part.leader_epoch
            )
            for topic in found.topics
            for part in topic.partitions
            if part.error_code is ErrorCode.none and part.start_offset >= 0
        }

    return await ask_coordinator(connections, group, "describe_share_group_offsets", request, read)


async def alter_start_offsets(
    connections: BrokerConnections,
    group: str,
    positions: Mapping[TopicPartition, OffsetAndMetadata],
) -> dict[TopicPartition, ErrorCode]:
    """Change start offsets; returns the refused partitions with their errors.

    Raises:
        KafkaError: all offsets were refused; NON_EMPTY_GROUP while the group has members.
    """
    by_topic: dict[str, list[Any]] = defaultdict(list)
    for (topic, partition), position in positions.items():
        by_topic[topic].append(
            AlterShareGroupOffsetsRequestPartition(
                partition_index=partition,
                start_offset=position.offset,
            )
        )
    topics = (
        AlterShareGroupOffsetsRequestTopic(topic_name=name, partitions=tuple(parts))
        for name, parts in by_topic.items()
    )
    request = AlterShareGroupOffsetsRequest(group_id=group, topics=tuple(topics))

    def read(response: Any) -> dict[TopicPartition, ErrorCode]:
        _check(response, f"group {group!r}")
        refused = {
            TopicPartition(topic.topic_name, part.partition_index): error_of(part.error_code)
            for topic in response.responses
            for part in topic.partitions
            if part.error_code is not ErrorCode.none
        }
        check_coordinator(group, refused)
        return refused

    return await ask_coordinator(connections, group, "alter_share_group_offsets", request, read)


async def delete_start_offsets(connections: BrokerConnections, group: str, topic: str) -> None:
    """Delete the start offsets of a topic: the group must have no members.

    Raises:
        KafkaError: the request was refused.
    """
    named = DeleteShareGroupOffsetsRequestTopic(topic_name=topic)
    request = DeleteShareGroupOffsetsRequest(group_id=group, topics=(named,))

    def read(response: Any) -> None:
        _check(response, f"group {group!r}")
        for each in response.responses:
            _check(each, f"group {group!r}, topic {topic!r}")

    await ask_coordinator(connections, group, "delete_share_group_offsets", request, read)


async def no_share_group(
    connections: BrokerConnections, group: str, asking: Coroutine[Any, Any, T]
) -> T:
    """The answer to what no share group can be asked for: brokers do not find it, or its members.

    Raises:
        KafkaError, CommitFailed: the request was refused; because of that, if it was.
    """
    try:
        return await asking
    except (KafkaError, CommitFailed) as error:
        if error.code not in _NOT_FOUND or not await _is_share_group(connections, group):
            raise
        why = f"group {group!r} is a share group: it has start offsets, and no others"
        if error.code is ErrorCode.unknown_member_id:
            why = f"group {group!r} is a share group: its members cannot be removed"
        raise _again(error, why) from error


def _again(error: KafkaError | CommitFailed, why: str) -> KafkaError | CommitFailed:
    if isinstance(error, KafkaError):
        return KafkaError(error.code, why)
    return CommitFailed(why, error.code)


async def _is_share_group(connections: BrokerConnections, group: str) -> bool:
    listed = await list_groups(connections)
    return any(each.group == group and each.type == SHARE for each in listed)


def _check(answer: Any, what: str) -> None:
    if answer.error_code is not ErrorCode.none:
        message = f"{what}: {answer.error_message}" if answer.error_message else what
        raise KafkaError(error_of(answer.error_code), message)
