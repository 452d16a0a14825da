"""The start and end offsets of logs. Offsets between them can be read and committed."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from typing import NamedTuple

from drumlin.client.read.offsets import list_offsets
from drumlin.client.topic_partition import TopicPartition
from drumlin.peer.broker_connections import BrokerConnections
from drumlin.peer.options import Isolation


class LogBounds(NamedTuple):
    """The bounds of the offsets worth committing: start_offset <= offset <= end_offset."""

    start_offset: int
    end_offset: int

    def clamp(self, offset: int) -> int:
        """The nearest offset within the bounds."""
        return min(max(offset, self.start_offset), self.end_offset)


async def log_bounds(
    connections: BrokerConnections, places: Iterable[TopicPartition], *, led_only: bool = False
) -> dict[TopicPartition, LogBounds]:
    """The bounds of these partitions; those that do not exist (any more) are left out.

    `led_only`: also leave out partitions without a leader, instead of waiting for one.
    """
    existing = await existing_partitions(connections, places)
    return await bounds_of(connections, existing, "read_uncommitted", led_only=led_only)


async def bounds_of(
    connections: BrokerConnections,
    places: Collection[TopicPartition],
    isolation: Isolation,
    *,
    led_only: bool = False,
) -> dict[TopicPartition, LogBounds]:
    """The bounds of existing partitions, with concurrent requests for start and end.

    If the start moves past the end meanwhile, the log counts as empty: end = start.
    """
    starts, ends = await asyncio.gather(
        list_offsets(connections, dict.fromkeys(places, "earliest"), isolation, led_only=led_only),
        list_offsets(connections, dict.fromkeys(places, "latest"), isolation, led_only=led_only),
    )
    return {
        each: LogBounds(starts[each].offset, max(starts[each].offset, ends[each].offset))
        for each in places
        if each in starts and each in ends
    }


async def existing_partitions(
    connections: BrokerConnections, places: Iterable[TopicPartition]
) -> list[TopicPartition]:
    """The partitions among `places` that exist now."""
    await connections.retrying(lambda: connections.refresh(None))
    topics = connections.view.topics
    return [
        TopicPartition(topic, partition)
        for topic, partition in places
        if topic in topics and partition in topics[topic].partitions
    ]
