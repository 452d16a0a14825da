"""What a group has committed: read, and written by somebody who is no member of it.

A broker accepts offsets from outside only while the group has no members.
"""

from __future__ import annotations

from collections.abc import Mapping

from drumlin.cli import output
from drumlin.cli.cluster import Cluster
from drumlin.client import group_admin
from drumlin.client.group_admin import Committed, GroupDescription
from drumlin.client.offsets import TopicPartition
from drumlin.wire.errors import ErrorCode, KafkaError


def committed(cluster: Cluster, group: str) -> dict[TopicPartition, int]:
    """Every offset that the group has committed."""
    found = cluster.run(group_admin.fetch_committed(cluster.connections, group))
    return {place: position.offset for place, position in found.items()}


def commit(cluster: Cluster, group: str, positions: Mapping[TopicPartition, int]) -> None:
    """Commit where reading goes on.

    Raises:
        KafkaError: a partition was refused.
    """
    commit_positions(
        cluster, group, {place: Committed(offset) for place, offset in positions.items()}
    )


def commit_positions(
    cluster: Cluster, group: str, positions: Mapping[TopicPartition, Committed]
) -> None:
    """Commit positions with their metadata.

    Raises:
        KafkaError: a partition was refused.
    """
    refused = cluster.run(group_admin.commit(cluster.connections, group, positions))
    for (topic, partition), code in refused.items():
        raise KafkaError(code, f"group {group!r}, {topic}-{partition}")


def check_at_rest(group: GroupDescription, what: str) -> None:
    """Say what to do about a group whose members would go on from where they are.

    Raises:
        output.Failure: the group has members, or is of a kind that has no committed offsets.
    """
    if group.type not in ("classic", "consumer"):
        raise output.Failure(
            f"{group.group!r} is a {group.type} group: it has no committed offsets to {what}"
        )
    if not group.is_at_rest:
        raise output.Failure(live_members(group.group, group.state, len(group.members), what))


def live_members(group: str, state: str, count: int, what: str) -> str:
    """The sentence about a group that somebody reads with."""
    members = f"{count} member{'s' if count != 1 else ''}"
    return f"group {group!r} is {state} with {members}: stop its consumers first, to {what} offsets"


def is_refusal_for_members(error: KafkaError) -> bool:
    """Whether a commit from outside was refused because somebody has joined meanwhile."""
    return error.code in (ErrorCode.unknown_member_id, ErrorCode.rebalance_in_progress)
