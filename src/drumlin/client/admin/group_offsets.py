"""Where groups of any kind stand, how far behind they are, and where a reset moves them.

For a share group its start offsets count as committed. Loads no Arrow.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from drumlin.client.admin import group_admin, share_group_admin
from drumlin.client.admin.committed_offsets import OffsetAndMetadata
from drumlin.client.admin.group_admin import GroupDescription
from drumlin.client.admin.share_group_admin import SHARE
from drumlin.client.errors import CommitFailed
from drumlin.client.places import Place
from drumlin.client.read.log_bounds import log_bounds
from drumlin.client.read.offsets import list_offsets_or_ends
from drumlin.client.topic_partition import TopicPartition
from drumlin.peer.broker_connections import BrokerConnections
from drumlin.wire.error_codes import ErrorCode, KafkaError

_WITH_COMMITS: Final = ("classic", "consumer")


class GroupLag(NamedTuple):
    """How far behind a group is in one partition. `lag` is in offsets, and never below 0."""

    committed_offset: int
    end_offset: int
    lag: int


async def lag_of(connections: BrokerConnections, group: str) -> dict[TopicPartition, GroupLag]:
    """The lag in all existing partitions that the group has committed."""
    described = await share_group_admin.describe_group_of_any_kind(connections, group)
    positions = await _positions_of(connections, described)
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
    if described.type not in (*_WITH_COMMITS, SHARE):
        why = f"group {group!r} is a {described.type} group: it has no offsets to reset"
        raise CommitFailed(why, ErrorCode.group_id_not_found)
    if not described.is_at_rest:
        count = len(described.members)
        members = f"{count} member{'s' if count != 1 else ''}"
        why = f"group {group!r} is {described.state} with {members}: stop its consumers first"
        raise CommitFailed(why, ErrorCode.non_empty_group)
    if places is None and not topics:
        wanted = set(await _positions_of(connections, described))
    else:
        wanted = set(places or ())
        for topic in topics:
            numbers = await connections.partitions(topic)
            wanted |= {TopicPartition(topic, each) for each in numbers}
    bounds = await log_bounds(connections, wanted)
    for place in sorted(set(places or ()) - bounds.keys()):
        where = f"topic {place.topic!r} partition {place.partition} does not exist"
        raise KafkaError(ErrorCode.unknown_topic_or_partition, where)
    if isinstance(to, int):
        offsets = {place: log.clamp(to) for place, log in bounds.items()}
    else:
        asked = dict.fromkeys(bounds, to)
        offsets = await list_offsets_or_ends(connections, asked, "read_uncommitted")
    if not dry_run:
        await _move(connections, described, offsets)
    return dict(sorted(offsets.items()))


async def _positions_of(
    connections: BrokerConnections, group: GroupDescription
) -> dict[TopicPartition, OffsetAndMetadata]:
    if group.type == SHARE:
        return await share_group_admin.fetch_start_offsets(connections, group.group)
    if group.type in _WITH_COMMITS:
        return await group_admin.fetch_committed(connections, group.group)
    return {}


async def _move(
    connections: BrokerConnections, group: GroupDescription, offsets: Mapping[TopicPartition, int]
) -> None:
    positions = {place: OffsetAndMetadata(offset) for place, offset in offsets.items()}
    if group.type != SHARE:
        await group_admin.commit_all(connections, group.group, positions)
    elif positions:
        refused = await share_group_admin.alter_start_offsets(connections, group.group, positions)
        group_admin.raise_refused(group.group, refused)
