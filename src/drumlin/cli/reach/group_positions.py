"""Committed offsets of many groups at once, for looks at a whole cluster.

A group whose coordinator does not answer now, or may not be read, is left out.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Final

from drumlin.cli.reach.partition_offsets import raise_unless_absent
from drumlin.client.admin.committed_offsets import NAMES_UP_TO
from drumlin.client.admin.group_admin import GroupListing
from drumlin.client.topic_partition import TopicPartition
from drumlin.peer.broker_connections import BrokerConnections
from drumlin.peer.peer_error import PeerError
from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.protocol.list_groups import ListGroupsRequest
from drumlin.wire.protocol.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

#: From this version on a request names many groups.
_MANY_FROM: Final = 8
_GROUPS_ASKED: Final = 50
#: The types of groups that commit offsets; brokers before Kafka 3.8 tell none.
_COMMITTING: Final = ("classic", "consumer", None)

Positions = dict[str, dict[TopicPartition, int]]


def commits_offsets(group: GroupListing) -> bool:
    """Whether a group has committed offsets; a share group does not."""
    return (group.type and group.type.lower()) in _COMMITTING


async def listed_groups(
    connections: BrokerConnections,
) -> tuple[list[GroupListing], frozenset[int]]:
    """The groups of all brokers that answer now, and the brokers that do not."""

    async def ask(node_id: int) -> list[GroupListing]:
        connection = await connections.broker(node_id)
        answer = await connection.request("list_groups", ListGroupsRequest())
        return [
            GroupListing(
                each.group_id,
                each.group_state or None,
                each.group_type or None,
                each.protocol_type,
                node_id,
            )
            for each in answer.groups
        ]

    nodes = sorted(connections.view.brokers)
    outcomes = await asyncio.gather(*map(ask, nodes), return_exceptions=True)
    raise_unless_absent(outcomes)
    told = zip(nodes, outcomes, strict=True)
    silent = frozenset(node_id for node_id, each in told if isinstance(each, PeerError))
    found = (each for each in outcomes if not isinstance(each, BaseException))
    return [*itertools.chain.from_iterable(found)], silent


async def positions_of(connections: BrokerConnections, groups: Iterable[GroupListing]) -> Positions:
    """The committed offsets by group, asked of the coordinators that have listed the groups."""
    by_coordinator: dict[int, list[str]] = defaultdict(list)
    for each in groups:
        if commits_offsets(each):
            by_coordinator[each.coordinator].append(each.group)
    found: Positions = {}

    async def ask(node_id: int, names: list[str]) -> None:
        connection = await connections.broker(node_id)
        version = connection.version_of("offset_fetch", NAMES_UP_TO)
        rest = iter(names)
        while asked := list(itertools.islice(rest, _GROUPS_ASKED if version >= _MANY_FROM else 1)):
            answer = await connection.request(
                "offset_fetch", _request(asked), version_max=NAMES_UP_TO
            )
            told = (answer,) if answer.groups is None else answer.groups
            for name, group in zip(asked, told, strict=True):
                if group.error_code is ErrorCode.none:
                    found[getattr(group, "group_id", name)] = _positions(group)

    answers = (ask(*each) for each in by_coordinator.items())
    raise_unless_absent(await asyncio.gather(*answers, return_exceptions=True))
    return found


def _positions(group: Any) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic.name, each.partition_index): each.committed_offset
        for topic in group.topics
        for each in topic.partitions
        if each.error_code is ErrorCode.none and each.committed_offset >= 0
    }


def _request(groups: Sequence[str]) -> OffsetFetchRequest:
    named = (OffsetFetchRequestGroup(group_id=each, topics=None) for each in groups)
    return OffsetFetchRequest(group_id=groups[0], topics=None, groups=tuple(named))
