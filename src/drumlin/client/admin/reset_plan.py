"""Where a reset moves a group in each partition: the rule of all who reset, and who may be moved.

Plans and commits nothing. An offset outside the log becomes the log's start or end. Loads no Arrow.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from drumlin.client.admin.committed_offsets import OffsetAndMetadata
from drumlin.client.admin.group_admin import GroupDescription
from drumlin.client.admin.share_group_admin import SHARE
from drumlin.client.places import Place, Time
from drumlin.client.read import offsets
from drumlin.client.read.log_bounds import LogBounds, log_bounds
from drumlin.client.topic_partition import TopicPartition
from drumlin.peer.broker_connections import BrokerConnections

#: The types of groups that commit offsets.
WITH_COMMITS: Final = ("classic", "consumer")


class NothingCommitted(ValueError):
    """A shift of what is committed, where nothing is."""


@dataclass(frozen=True, slots=True)
class Target:
    """The place to continue from; `kind` says which of the other fields applies."""

    kind: str  # "earliest", "latest", "current", "offset", "shift", "time"
    number: int = 0
    time: Time | None = None

    @classmethod
    def of(cls, place: Place) -> Target:
        """The target that a place stands for."""
        if isinstance(place, str):
            return cls(place)
        return cls("offset", place) if isinstance(place, int) else cls("time", time=place)


class Move(NamedTuple):
    """What a reset does to one partition; `remark` says what is not as it was asked for."""

    old: OffsetAndMetadata | None
    new_offset: int
    log: LogBounds
    remark: str | None

    @classmethod
    def to(
        cls, offset: int, log: LogBounds, old: OffsetAndMetadata | None, remark: str | None = None
    ) -> Move:
        """The move to an offset, or to the nearest one within the log."""
        new_offset = log.clamp(offset)
        if new_offset != offset:
            where = "start" if offset < new_offset else "end"
            remark = f"{offset} is outside the log: its {where}"
        return cls(old, new_offset, log, remark)


async def planned(
    connections: BrokerConnections,
    group: str,
    places: Collection[TopicPartition],
    target: Target,
    known: Mapping[TopicPartition, OffsetAndMetadata],
) -> dict[TopicPartition, Move]:
    """The moves of a group whose positions are `known`; without partitions that do not exist.

    Raises:
        NothingCommitted: a shift, and nothing is committed in one of the partitions.
    """
    bounds = await log_bounds(connections, places)
    found: Mapping[TopicPartition, offsets.OffsetAndTimestamp] = {}
    if target.time is not None:
        asked = dict.fromkeys(bounds, target.time)
        found = await offsets.list_offsets(connections, asked, "read_uncommitted")
    moves = {}
    for place, log in bounds.items():
        old = known.get(place)
        at = found[place].offset if place in found else -1
        offset, remark = _offset(group, place, target, log, old, at)
        moves[place] = Move.to(offset, log, old, remark)
    return moves


def _offset(
    group: str,
    place: TopicPartition,
    target: Target,
    log: LogBounds,
    old: OffsetAndMetadata | None,
    found: int,
) -> tuple[int, str | None]:
    """The target offset, which may lie outside the log, and a remark about it."""
    if target.kind == "earliest":
        return log.start_offset, None
    if target.kind == "latest":
        return log.end_offset, None
    if target.kind == "offset":
        return target.number, None
    if target.kind == "time":
        return (found, None) if found >= 0 else (log.end_offset, "no record since then: the end")
    if target.kind == "current":
        return (log.end_offset, "nothing committed: the end") if old is None else (old.offset, None)
    if old is None:
        raise NothingCommitted(
            f"group {group!r} has committed nothing for {place[0]}-{place[1]} that could be shifted"
        )
    return old.offset + target.number, None


def why_not_movable(group: GroupDescription, what: str) -> str | None:
    """Why the offsets of a group cannot be moved now: its members would commit their own."""
    if group.type not in (*WITH_COMMITS, SHARE):
        return f"{group.group!r} is a {group.type} group: its offsets are not ours to {what}"
    if not group.is_at_rest:
        return live_members(group, what)
    return None


def live_members(group: GroupDescription, what: str) -> str:
    """The error about a group that has members."""
    count = len(group.members)
    members = f"{count} member{'s' if count != 1 else ''}"
    told = f"group {group.group!r} is {group.state} with {members}"
    return f"{told}: stop its consumers first, to {what} offsets"
