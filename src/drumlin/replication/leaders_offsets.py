"""A leader's log start and end offsets, for followers that got OFFSET_OUT_OF_RANGE."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from drumlin.peer.connection import BrokerConnection, Request
from drumlin.replication.followed_partition import FollowedPartition
from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.protocol.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from drumlin.wire.schema.declaration import Message

_LATEST: Final = -1
_EARLIEST: Final = -2
_READ_UNCOMMITTED: Final = 0
_VERSION_MAX: Final = 9


class LeadersOffsets(NamedTuple):
    """The log start offset and log end offset of a partition, or an error."""

    error_code: ErrorCode
    start: int
    end: int


async def leaders_offsets(
    connection: BrokerConnection, node_id: int, partitions: Sequence[FollowedPartition]
) -> dict[FollowedPartition, LeadersOffsets]:
    """The offsets of partitions, except those missing in the leader's answer.

    Raises:
        PeerError: there is no answer.
    """
    starts = _ask(connection, _asking(node_id, partitions, _EARLIEST))
    ends = _ask(connection, _asking(node_id, partitions, _LATEST))
    by_start, by_end = _by_place(await starts), _by_place(await ends)
    found = {}
    for partition in partitions:
        place = partition.topic, partition.index
        start, end = by_start.get(place), by_end.get(place)
        if start is not None and end is not None:
            failed = start if start.error_code is not ErrorCode.none else end
            found[partition] = LeadersOffsets(failed.error_code, start.offset, end.offset)
    return found


def _ask(connection: BrokerConnection, request: Request) -> asyncio.Future[Any]:
    return connection.send("list_offsets", request, version_max=_VERSION_MAX)


def _asking(node_id: int, partitions: Sequence[FollowedPartition], timestamp: int) -> Message:
    topics: dict[str, list[Any]] = {}
    for each in partitions:
        wanted = ListOffsetsPartition(
            partition_index=each.index,
            current_leader_epoch=each.leader_epoch,
            timestamp=timestamp,
        )
        topics.setdefault(each.topic, []).append(wanted)
    return ListOffsetsRequest(
        replica_id=node_id,
        isolation_level=_READ_UNCOMMITTED,
        topics=tuple(
            ListOffsetsTopic(name=name, partitions=tuple(wanted)) for name, wanted in topics.items()
        ),
    )


def _by_place(response: Any) -> dict[tuple[str, int], Any]:
    return {
        (topic.name, each.partition_index): each
        for topic in response.topics
        for each in topic.partitions
    }
