"""A point in a topic's history, and the ranges of the log that tell its state at that point.

A point is now, a time, or an offset in each partition; records before it count. It is found
once, before anything is read, and never moves afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from drumlin.client import arguments
from drumlin.client.errors import OffsetOutOfRange
from drumlin.client.offsets import TopicPartition, list_offsets
from drumlin.client.range_stream import OffsetRange
from drumlin.peer.broker_connections import BrokerConnections
from drumlin.peer.options import Isolation
from drumlin.wire.errors import ErrorCode, KafkaError

#: A time (aware, or milliseconds) whose records count too, or end offsets; None: now.
Point = datetime | int | Mapping[int, int]

_OFFSET_MAX: Final = 2**63 - 1
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def check_point(at: object) -> None:
    """
    Raises:
        TypeError, ValueError: it is no point.
    """
    if isinstance(at, Mapping):
        for partition, offset in at.items():
            arguments.whole_number("at: partition", partition, 0, 2**31 - 1)
            arguments.whole_number(f"at[{partition}]", offset, 0, _OFFSET_MAX)
    elif isinstance(at, datetime):
        last_ms(at)
    elif at is not None:
        arguments.whole_number("at", at, 0, _OFFSET_MAX - 1)


def last_ms(at: datetime | int) -> int:
    """The last millisecond since 1970 whose records count, at a point that is a time.

    Raises:
        ValueError: a time without a time zone.
    """
    if isinstance(at, int):
        return at
    if at.tzinfo is None:
        raise ValueError(f"{at!r} has no time zone")
    return (at - _EPOCH) // timedelta(milliseconds=1)  # exact, as `timestamp()` is not


async def ranges_until(
    connections: BrokerConnections,
    topic: str,
    partitions: Sequence[int] | None,
    at: Point | None,
    isolation: Isolation,
) -> list[OffsetRange]:
    """All of these partitions (None: every one), from the log's start up to the point.

    Raises:
        KafkaError: unknown topic or partition.
        OffsetOutOfRange: an end offset that is not in the log, or not yet.
        ValueError: `at` names other partitions than those that are read.
    """
    existing = await connections.partitions(topic)
    wanted = existing if partitions is None else list(dict.fromkeys(partitions))
    for partition in wanted:
        if partition not in existing:
            where = f"topic {topic!r} partition {partition} does not exist"
            raise KafkaError(ErrorCode.unknown_topic_or_partition, where)
    if isinstance(at, Mapping) and set(at) != set(wanted):
        raise ValueError(f"at has offsets of partitions {sorted(at)}: {sorted(wanted)} are read")
    places = [(topic, each) for each in wanted]
    if not places:
        return []
    # In this order: a start that moves meanwhile does not come after its end.
    starts = await list_offsets(connections, dict.fromkeys(places, "earliest"), isolation)
    ends = await list_offsets(connections, dict.fromkeys(places, "latest"), isolation)
    stops = {place: found.offset for place, found in ends.items()}
    if isinstance(at, Mapping):
        for place in places:
            start, end, stop = starts[place].offset, ends[place].offset, at[place[1]]
            if not start <= stop <= end:
                raise OffsetOutOfRange(*place, stop, start, end)
            stops[place] = stop
    elif at is not None:
        stops |= await _first_after(connections, places, at, isolation, stops)
    return [OffsetRange(*each, starts[each].offset, stops[each]) for each in places]


async def _first_after(
    connections: BrokerConnections,
    places: Sequence[TopicPartition],
    at: datetime | int,
    isolation: Isolation,
    ends: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """The offset of the first record that is younger than `at`; else the end."""
    after_ms = last_ms(at) + 1
    found = await list_offsets(connections, dict.fromkeys(places, after_ms), isolation)
    return {
        place: ends[place] if each.offset < 0 else min(each.offset, ends[place])
        for place, each in found.items()
    }
