"""The committed offsets of a group, read and written without being a member of it.

A broker accepts offsets from outside only while the group has no members.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from drumlin.cli.reach.cluster import Cluster
from drumlin.cli.terminal import output
from drumlin.client.admin import group_admin, group_offsets, share_group_admin
from drumlin.client.admin.committed_offsets import OffsetAndMetadata
from drumlin.client.admin.group_admin import GroupDescription
from drumlin.client.admin.reset_plan import why_not_movable
from drumlin.client.admin.share_group_admin import SHARE
from drumlin.client.topic_partition import TopicPartition
from drumlin.wire.error_codes import ErrorCode, KafkaError


def committed(cluster: Cluster, group: str) -> dict[TopicPartition, int]:
    """Every offset that the group has committed."""
    found = cluster.run(group_admin.fetch_committed(cluster.connections, group))
    return {place: position.offset for place, position in found.items()}


def commit(cluster: Cluster, group: str, positions: Mapping[TopicPartition, int]) -> None:
    """Commit the offsets to read from next.

    Raises:
        KafkaError: a partition was refused.
    """
    commit_positions(
        cluster, group, {place: OffsetAndMetadata(offset) for place, offset in positions.items()}
    )


def all_groups(
    cluster: Cluster, states: Collection[str] = (), types: Collection[str] = ()
) -> list[dict[str, Any]]:
    """The groups of every broker, filtered by state and type."""
    found = cluster.run(group_admin.list_groups(cluster.connections, states, types))
    return [each._asdict() for each in found]


def describe(cluster: Cluster, group: str) -> GroupDescription:
    """State and members of a group of any kind."""
    return cluster.run(share_group_admin.describe_group_of_any_kind(cluster.connections, group))


def positions_of(
    cluster: Cluster, group: GroupDescription
) -> dict[TopicPartition, OffsetAndMetadata]:
    """The offsets that the group has committed; for a share group, its start offsets."""
    return cluster.run(group_offsets.positions_of(cluster.connections, group))


def move(
    cluster: Cluster, group: GroupDescription, positions: Mapping[TopicPartition, OffsetAndMetadata]
) -> None:
    """Make the group continue from these positions.

    Raises:
        KafkaError: a partition was refused.
    """
    if group.type == SHARE:
        asking = share_group_admin.alter_start_offsets(cluster.connections, group.group, positions)
        _check_all(group.group, cluster.run(asking))
    else:
        commit_positions(cluster, group.group, positions)


def commit_positions(
    cluster: Cluster, group: str, positions: Mapping[TopicPartition, OffsetAndMetadata]
) -> None:
    """Commit positions with their metadata.

    Raises:
        KafkaError: a partition was refused.
    """
    _check_all(group, cluster.run(group_admin.commit(cluster.connections, group, positions)))


def _check_all(group: str, refused: Mapping[TopicPartition, ErrorCode]) -> None:
    for (topic, partition), code in refused.items():
        raise KafkaError(code, f"group {group!r}, {topic}-{partition}")


def check_at_rest(group: GroupDescription, what: str) -> None:
    """Refuse a group with members, which would continue from their own positions.

    Raises:
        output.Failure: the group has members, or is of a type that has no committed offsets.
    """
    why = why_not_movable(group, what)
    if why is not None:
        raise output.Failure(why)


def is_refusal_for_members(error: KafkaError) -> bool:
    """Whether a commit from outside was refused because a member has joined in the meantime."""
    return error.code in (
        ErrorCode.unknown_member_id,
        ErrorCode.rebalance_in_progress,
        ErrorCode.non_empty_group,
    )
