"""Where groups of any kind stand, how far behind they are, and where a reset moves them.

For a share group its start offsets count as committed. Loads no Arrow.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from drumlin.client.admin import group_admin, share_group_admin
from drumlin.client.admin.committed_offsets import OffsetAndMetadata
from drumlin.client.admin.group_admin import GroupDescription
from drumlin.client.admin.reset_plan import WITH_COMMITS, Target, planned, why_not_movable
from drumlin.client.admin.share_group_admin import SHARE
from drumlin.client.errors import CommitFailed
from drumlin.client.places import Place
from drumlin.client.read.log_bounds import log_bounds
from drumlin.client.topic_partition import TopicPartition
from drumlin.peer.broker_connections import BrokerConnections
from drumlin.wire.error_codes import ErrorCode, KafkaError


class GroupLag(NamedTuple):
    """How far behind a group is in one partition. `lag` is in offsets, and never below 0."""

    committed_offset: int
    end_offset: int
    lag: int


async def lag_of(connections: BrokerConnections, group: str) -> dict[TopicPartition, GroupLag]:
    """The lag in all existing partitions that the group has committed."""
    described = await share_group_admin.describe_group_of_any_kind(connections, group)
    positions = await positions_of(connections, described)
    bounds = await log_bounds(connections, positions)
    return {
        place: GroupLag(
            positions[place].offset,
            log.end_offset,
            max(log.end_offset - positions[place].offset, 0),
        )
        for place, log in sorted(bounds.items())
    }


async def reset(
    connections: BrokerConnections,
    group: str,
    to: Place,
    places: Collection[TopicPartition] | None,
    topics: Collection[str],
    *,
    dry_run: bool,
) -> dict[TopicPartition, int]:
    """Move a group without members; see `Client.reset_offsets`.

    Raises:
        CommitFailed: the group has members; or a partition was refused, but others were not.
        KafkaError: a topic or partition does not exist.
    """
    described = await share_group_admin.describe_group_of_any_kind(connections, group)
    why = why_not_movable(described, "reset")
    if why is not None:
        is_at_rest = described.is_at_rest
        code = ErrorCode.group_id_not_found if is_at_rest else ErrorCode.non_empty_group
        raise CommitFailed(why, code)
    if places is None and not topics:
        wanted = set(await positions_of(connections, described))
    else:
        wanted = set(places or ())
        for topic in topics:
            numbers = await connections.partitions(topic)
            wanted |= {TopicPartition(topic, each) for each in numbers}
    moves = await planned(connections, group, wanted, Target.of(to), {})
    for place in sorted(set(places or ()) - moves.keys()):
        where = f"topic {place.topic!r} partition {place.partition} does not exist"
        raise KafkaError(ErrorCode.unknown_topic_or_partition, where)
    offsets = {place: each.new_offset for place, each in moves.items()}
    if not dry_run:
        await move(connections, described, offsets)
    return dict(sorted(offsets.items()))


async def positions_of(
    connections: BrokerConnections, group: GroupDescription
) -> dict[TopicPartition, OffsetAndMetadata]:
    """The offsets that the group has committed; for a share group, its start offsets."""
    if group.type == SHARE:
        return await share_group_admin.fetch_start_offsets(connections, group.group)
    if group.type in WITH_COMMITS:
        return await group_admin.fetch_committed(connections, group.group)
    return {}


async def move(
    connections: BrokerConnections, group: GroupDescription, offsets: Mapping[TopicPartition, int]
) -> None:
    """Make the group continue from these offsets.

    Raises:
        CommitFailed: some were refused; the others are committed.
    """
    positions = {place: OffsetAndMetadata(offset) for place, offset in offsets.items()}
    if group.type != SHARE:
        await group_admin.commit_all(connections, group.group, positions)
    elif positions:
        refused = await share_group_admin.alter_start_offsets(connections, group.group, positions)
        group_admin.raise_refused(group.group, refused)
