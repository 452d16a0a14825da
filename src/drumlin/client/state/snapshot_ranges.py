"""The ranges of the log that give a topic's state at a point in its history.

A point is now, a time, or an offset in each partition; records before it count. Its offsets are
looked up once, before anything is read, and never change afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from drumlin.client.errors import OffsetOutOfRange, translated
from drumlin.client.loops.core_loop import CoreLoop
from drumlin.client.places import Point, check_partitions, last_ms
from drumlin.client.read.log_at_time import ends_at
from drumlin.client.read.log_bounds import bounds_of
from drumlin.client.read.range_stream import OffsetRange
from drumlin.client.topic_partition import TopicPartition
from drumlin.peer.broker_connections import BrokerConnections
from drumlin.peer.options import Isolation
from drumlin.wire.error_codes import ErrorCode, KafkaError


def ranges_until(
    thread: CoreLoop,
    connections: BrokerConnections,
    topic: str,
    partitions: Sequence[int] | None,
    at: Point | None,
    isolation: Isolation,
) -> list[OffsetRange]:
    """The ranges of these partitions (None: all), from the log start offset to the point.

    Raises:
        UnknownTopic: unknown topic or partition.
        OffsetOutOfRange: an end offset is not in the log (yet).
        ValueError: the partitions of `at` are not those that are read.
    """
    with translated():
        found = thread.run(whole_ranges(connections, topic, partitions, isolation))
        if at is None:
            return found
        stops = {each.place: each.end_offset for each in found}
        if isinstance(at, Mapping):
            stops = _stops(found, at)
        else:
            stops = ends_at(thread, connections, stops, last_ms(at), isolation)
        return [each._replace(end_offset=stops[each.place]) for each in found]


async def whole_ranges(
    connections: BrokerConnections,
    topic: str,
    partitions: Sequence[int] | None,
    isolation: Isolation,
) -> list[OffsetRange]:
    """The ranges of these partitions (None: all), from the log start offset to the current end.

    Raises:
        KafkaError: unknown topic or partition.
    """
    existing = await connections.partitions(topic)
    wanted = existing if partitions is None else list(dict.fromkeys(partitions))
    for partition in wanted:
        if partition not in existing:
            where = f"topic {topic!r} partition {partition} does not exist"
            raise KafkaError(ErrorCode.unknown_topic_or_partition, where)
    places = [TopicPartition(topic, each) for each in wanted]
    bounds = await bounds_of(connections, places, isolation)
    return [OffsetRange(*each, *bounds[each]) for each in places]


def _stops(ranges: Sequence[OffsetRange], offsets: Mapping[int, int]) -> dict[TopicPartition, int]:
    check_partitions("at", offsets, [each.partition for each in ranges])
    for topic, partition, start, end, _ in ranges:
        if not start <= offsets[partition] <= end:
            raise OffsetOutOfRange(topic, partition, offsets[partition], start, end)
    return {each.place: offsets[each.partition] for each in ranges}
