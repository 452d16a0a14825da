"""Looks up offsets (ListOffsets) at the leaders of partitions."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from drumlin.client.places import OffsetSpec, timestamp_of
from drumlin.client.topic_partition import TopicPartition
from drumlin.peer.broker_connections import BrokerConnections
from drumlin.peer.options import ISOLATION_LEVELS, Isolation
from drumlin.peer.peer_error import InvalidResponse
from drumlin.peer.retry import is_retriable
from drumlin.peer.rights import refusal
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.protocol.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

_VERSION_MAX: Final = 9  # later versions only add timestamps for tiered storage
_NOT_A_REPLICA: Final = -1


def by_topic(places: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """The partitions of each topic, sorted."""
    grouped: dict[str, list[int]] = defaultdict(list)
    for topic, partition in sorted(places):
        grouped[topic].append(partition)
    return grouped


class OffsetAndTimestamp(NamedTuple):
    """An offset from a broker; -1 if there is no record at or after the time."""

    offset: int
    timestamp: int = -1  # of the record found for a time; -1 for "earliest" and "latest"
    leader_epoch: int = -1


async def list_offsets(
    connections: BrokerConnections,
    wanted: Mapping[TopicPartition, OffsetSpec],
    isolation: Isolation,
    *,
    led_only: bool = False,
) -> dict[TopicPartition, OffsetAndTimestamp]:
    """Look up many offsets at once, with one request to each leader.

    `led_only`: leave out partitions without a leader, instead of waiting for one.
    """
    timestamps = {each: timestamp_of(spec) for each, spec in wanted.items()}
    return await look_up(connections, timestamps, isolation, led_only=led_only)


async def look_up(
    connections: BrokerConnections,
    timestamps: Mapping[TopicPartition, int],
    isolation: Isolation,
    *,
    led_only: bool = False,
) -> dict[TopicPartition, OffsetAndTimestamp]:
    """`list_offsets` with the protocol's timestamps, such as -2 for "earliest"."""
    missing = dict(timestamps)
    found: dict[TopicPartition, OffsetAndTimestamp] = {}

    async def attempt() -> None:
        by_leader: dict[int, list[TopicPartition]] = defaultdict(list)
        await learn_leaders(connections, {topic for topic, _ in missing})
        for place in list(missing):
            try:
                by_leader[connections.view.leader_of(*place)].append(place)
            except KafkaError as error:
                if not led_only or error.code is not ErrorCode.leader_not_available:
                    raise
                del missing[place]
        answers = await asyncio.gather(
            *(
                _ask(connections, leader, {each: missing[each] for each in partitions}, isolation)
                for leader, partitions in by_leader.items()
            ),
            return_exceptions=True,
        )
        errors = [each for each in answers if isinstance(each, BaseException)]
        for answer in answers:
            if not isinstance(answer, BaseException):
                errors += _take(answer, missing, found)
        if errors:
            raise next((each for each in errors if not is_retriable(each)), errors[0])
        for topic, partition in missing:
            where = f"topic {topic!r} partition {partition}"
            raise InvalidResponse(f"{where}: missing in the response to list_offsets")

    await connections.retrying(attempt, topics={topic for topic, _ in timestamps})
    return {each: found[each] for each in timestamps if each in found}


async def offsets_of_topic(
    connections: BrokerConnections, topic: str, at: OffsetSpec, isolation: Isolation
) -> dict[int, int]:
    """Look up one place in each partition; returns the end offset if all records are older."""
    partitions = await connections.partitions(topic)
    wanted = {TopicPartition(topic, each): at for each in partitions}
    found = await list_offsets_or_ends(connections, wanted, isolation)
    return {partition: offset for (_, partition), offset in found.items()}


async def list_offsets_or_ends(
    connections: BrokerConnections,
    wanted: Mapping[TopicPartition, OffsetSpec],
    isolation: Isolation,
) -> dict[TopicPartition, int]:
    """Like `list_offsets`, with the end offset of partitions where all records are older."""
    found = await list_offsets(connections, wanted, isolation)
    young = [each for each, place in found.items() if place.offset < 0]
    if young:
        found |= await list_offsets(connections, dict.fromkeys(young, "latest"), isolation)
    return {each: place.offset for each, place in found.items()}


async def learn_leaders(connections: BrokerConnections, topics: set[str]) -> None:
    """Fetch the metadata of topics that are not known yet."""
    unknown = topics - connections.view.topics.keys()
    if unknown:
        await connections.refresh(unknown)


async def _ask(
    connections: BrokerConnections,
    leader: int,
    timestamps: Mapping[TopicPartition, int],
    isolation: Isolation,
) -> Any:
    request = ListOffsetsRequest(
        replica_id=_NOT_A_REPLICA,
        isolation_level=ISOLATION_LEVELS[isolation],
        topics=tuple(
            ListOffsetsTopic(
                name=topic,
                partitions=tuple(
                    ListOffsetsPartition(
                        partition_index=each,
                        timestamp=timestamps[TopicPartition(topic, each)],
                    )
                    for each in partitions
                ),
            )
            for topic, partitions in by_topic(timestamps).items()
        ),
    )
    connection = await connections.broker(leader)
    return await connection.request("list_offsets", request, version_max=_VERSION_MAX)


def _take(
    answer: Any,
    missing: dict[TopicPartition, int],
    found: dict[TopicPartition, OffsetAndTimestamp],
) -> Iterable[BaseException]:
    """Move the found partitions from `missing` to `found`; yields the errors of others."""
    for topic in answer.topics:
        for each in topic.partitions:
            place = TopicPartition(topic.name, each.partition_index)
            if place not in missing:
                continue  # not requested
            if each.error_code is not ErrorCode.none:
                where = f"topic {topic.name!r} partition {each.partition_index}"
                yield refusal("list_offsets", each.error_code, f"list_offsets of {where}")
                continue
            del missing[place]
            epoch = each.leader_epoch
            found[place] = OffsetAndTimestamp(each.offset, each.timestamp, epoch)
