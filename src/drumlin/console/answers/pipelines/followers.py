"""Followers: groups that read compacted topics, as materializations and landings do.

For the cluster these are consumer groups like any other. It knows how far each is, and the client
ids of its members; neither the kind of a follower nor its store.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import partial
from typing import Any, Final

from drumlin.client.admin import group_admin
from drumlin.client.admin.committed_offsets import OffsetAndMetadata
from drumlin.client.admin.group_admin import GroupListing
from drumlin.client.read.log_bounds import LogBounds, log_bounds
from drumlin.client.topic_partition import TopicPartition
from drumlin.console.answers.asking import Answer, ask_any, ask_each_visible
from drumlin.peer.broker_connections import BrokerConnections
from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.protocol.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

#: Offsets are asked for group by group.
_GROUPS_MAX: Final = 200
_TOPICS_MAX: Final = 2_000
_ROWS_MAX: Final = 2_000
_CLIENT_IDS_MAX: Final = 5
_SHARE: Final = "share"
_EMPTY: Final = "Empty"
_TOPIC: Final = 2
_POLICY: Final = "cleanup.policy"

Positions = Mapping[TopicPartition, OffsetAndMetadata]


async def followers(connections: BrokerConnections) -> Answer:
    """A row for each group and compacted topic that it has offsets of.

    `unknown` counts topics whose configuration this user may not see.
    """
    listed = [each for each in await group_admin.list_groups(connections) if each.type != _SHARE]
    asked = listed[:_GROUPS_MAX]
    positions = await _positions(connections, asked)
    topics = sorted({place.topic for each in positions.values() for place in each})
    compacted, unknown = await _compacted(connections, topics[:_TOPICS_MAX])
    places = {place for each in positions.values() for place in each if place.topic in compacted}
    bounds = await log_bounds(connections, places, led_only=True) if places else {}
    counts = {
        name: len(connections.view.topics[name].partitions)
        for name in compacted & connections.view.topics.keys()
    }
    live = [
        each.group
        for each in asked
        if each.state != _EMPTY and any(p.topic in counts for p in positions.get(each.group, ()))
    ]
    client_ids = await _client_ids(connections, live)
    rows = [
        _row(each, topic, positions[each.group], counts[topic], bounds, client_ids.get(each.group))
        for each in asked
        for topic in sorted(
            {place.topic for place in positions.get(each.group, ())} & counts.keys()
        )
    ]
    return {
        "followers": rows[:_ROWS_MAX],
        "not_shown": max(len(rows) - _ROWS_MAX, 0),
        "groups_not_asked": len(listed) - len(asked),
        "unknown": unknown,
    }


async def _positions(
    connections: BrokerConnections, listed: Iterable[GroupListing]
) -> dict[str, Positions]:
    """The committed offsets of groups; without those that may not be seen."""
    groups = [each.group for each in listed]
    return await ask_each_visible(partial(group_admin.fetch_committed, connections), groups)


async def _compacted(
    connections: BrokerConnections, topics: Collection[str]
) -> tuple[set[str], int]:
    """The compacted ones of these topics, and the number of those that cannot be known."""
    if not topics:
        return set(), 0
    resources = tuple(
        DescribeConfigsResource(
            resource_type=_TOPIC, resource_name=each, configuration_keys=(_POLICY,)
        )
        for each in topics
    )
    request = DescribeConfigsRequest(
        resources=resources, include_synonyms=False, include_documentation=False
    )
    response: Any = await ask_any(connections, "describe_configs", request)
    told = {
        each.resource_name: each.configs
        for each in response.results
        if each.error_code == ErrorCode.none
    }
    compacted = {
        name
        for name, configs in told.items()
        if any(each.name == _POLICY and "compact" in str(each.value) for each in configs)
    }
    refused = sum(
        each.error_code not in (ErrorCode.none, ErrorCode.unknown_topic_or_partition)
        for each in response.results
    )
    return compacted, refused


async def _client_ids(
    connections: BrokerConnections, groups: Iterable[str]
) -> dict[str, tuple[int, list[str]]]:
    """The number of members of each group, and some of their client ids."""

    async def ask(group: str) -> tuple[int, list[str]]:
        members = (await group_admin.describe_group(connections, group)).members
        return len(members), sorted({each.client_id for each in members})[:_CLIENT_IDS_MAX]

    return await ask_each_visible(ask, groups)


def _row(
    listed: GroupListing,
    topic: str,
    positions: Positions,
    partitions: int,
    bounds: Mapping[TopicPartition, LogBounds],
    members: tuple[int, list[str]] | None,
) -> Answer:
    mine = {place: each for place, each in positions.items() if place.topic == topic}
    known = [
        (each.offset, bounds[place].end_offset) for place, each in mine.items() if place in bounds
    ]
    return {
        "group": listed.group,
        "topic": topic,
        "state": listed.state,
        "partitions": partitions,
        "followed": len(known),
        "offsets": sum(offset for offset, _ in known),
        "lag": sum(max(end - offset, 0) for offset, end in known) if known else None,
        "members": 0 if members is None else members[0],
        "client_ids": [] if members is None else members[1],
    }
