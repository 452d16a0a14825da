"""Groups of every kind with their lag, and one with its members and offsets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from drumlin.client.admin import group_admin, share_group_admin
from drumlin.client.admin.committed_offsets import OffsetAndMetadata
from drumlin.client.admin.group_admin import GroupListing
from drumlin.client.admin.share_group_admin import SHARE
from drumlin.client.read.log_bounds import LogBounds, log_bounds
from drumlin.client.topic_partition import TopicPartition
from drumlin.console.answers.asking import Answer, ask_each_visible, exact
from drumlin.peer.broker_connections import BrokerConnections
from drumlin.wire.error_codes import ErrorCode, KafkaError

_GROUPS_MAX: Final = 5_000
#: Offsets are asked for group by group.
_LAGS_MAX: Final = 200
_PLACES_MAX: Final = 20_000

Positions = Mapping[TopicPartition, OffsetAndMetadata]


async def groups(connections: BrokerConnections, containing: str) -> Answer:
    """The groups whose name contains a text; the first ones have their lag in records.

    `lag` is None where it is not known: too many groups, or no right to see their offsets.
    """
    listed = await group_admin.list_groups(connections)
    matching = [each for each in listed if containing in each.group]
    shown = matching[:_GROUPS_MAX]
    positions = await _positions_of_all(connections, shown[:_LAGS_MAX])
    places = list({place: None for each in positions.values() for place in each})[:_PLACES_MAX]
    bounds = await log_bounds(connections, places, led_only=True) if places else {}
    return {
        "groups": [
            {
                **each._asdict(),
                "lag": _lag(positions[each.group], bounds) if each.group in positions else None,
            }
            for each in shown
        ],
        "not_shown": len(matching) - len(shown),
        "lags_max": _LAGS_MAX,
    }


async def group(connections: BrokerConnections, name: str) -> Answer:
    """One group: its members, and the committed offset, end and lag of each partition.

    Raises:
        KafkaError: there is no such group.
    """
    found = await share_group_admin.describe_group_of_any_kind(connections, name)
    known = await _positions(connections, name, found.type)
    if found.state == "Dead" and not known:
        raise KafkaError(ErrorCode.group_id_not_found, f"group {name!r}")
    owners = {place: member for member in found.members for place in member.partitions}
    places = sorted(known.keys() | owners.keys())[:_PLACES_MAX]
    bounds = await log_bounds(connections, places, led_only=True) if places else {}
    offsets = []
    for place in places:
        position, log, owner = known.get(place), bounds.get(place), owners.get(place)
        offsets.append(
            {
                "topic": place.topic,
                "partition": place.partition,
                "offset": None if position is None else exact(position.offset),
                "metadata": None if position is None else position.metadata,
                "log_start_offset": None if log is None else log.start_offset,
                "end_offset": None if log is None else log.end_offset,
                "lag": None if position is None or log is None else _behind(position, log),
                "client_id": None if owner is None else owner.client_id,
                "member_id": None if owner is None else owner.member_id,
            }
        )
    return {
        "group": name,
        "state": found.state,
        "type": found.type,
        "lag": _lag(known, bounds),
        "members": [each.as_row() for each in found.members],
        "offsets": offsets,
    }


async def _positions_of_all(
    connections: BrokerConnections, listed: list[GroupListing]
) -> dict[str, Positions]:
    """The positions of groups; without those that may not be seen."""
    types = {each.group: each.type for each in listed}

    async def ask(group: str) -> Positions:
        return await _positions(connections, group, types[group])

    return await ask_each_visible(ask, types)


async def _positions(connections: BrokerConnections, name: str, kind: str | None) -> Positions:
    if kind == SHARE:
        return await share_group_admin.fetch_start_offsets(connections, name)
    return await group_admin.fetch_committed(connections, name)


def _lag(positions: Positions, bounds: Mapping[TopicPartition, LogBounds]) -> int:
    return sum(
        _behind(position, bounds[place]) for place, position in positions.items() if place in bounds
    )


def _behind(position: OffsetAndMetadata, log: LogBounds) -> int:
    return max(log.end_offset - position.offset, 0)
