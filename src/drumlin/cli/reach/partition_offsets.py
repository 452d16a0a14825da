"""Offsets of many partitions at once, for looks at a whole cluster.

A look waits for nothing: a partition that has no leader, or is deleted meanwhile, and a broker that
does not answer, are left out. Requests are of limited size, so that no broker is held up by one.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from drumlin.client.read.offsets import OffsetAndTimestamp, by_topic
from drumlin.client.topic_partition import TopicPartition
from drumlin.peer.broker_connections import BrokerConnections
from drumlin.peer.options import ISOLATION_LEVELS, Isolation
from drumlin.peer.peer_error import AuthenticationFailed, PeerError
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.protocol.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

EARLIEST: Final = -2
LATEST: Final = -1
#: The record with the highest timestamp.
NEWEST: Final = -3
_VERSION_MAX: Final = 9
_PARTITIONS_ASKED: Final = 1000
_NOT_A_REPLICA: Final = -1

Offsets = dict[TopicPartition, OffsetAndTimestamp]


def all_places(connections: BrokerConnections) -> list[TopicPartition]:
    """Every partition in the view of the cluster."""
    return [
        TopicPartition(topic.name, each)
        for topic in connections.view.topics.values()
        for each in topic.partitions
    ]


async def offsets_at(
    connections: BrokerConnections,
    places: Iterable[TopicPartition],
    timestamp: int,
    isolation: Isolation = "read_uncommitted",
) -> Offsets:
    """The offsets that leaders tell for a time, or for one of the names above."""
    view = connections.view
    by_leader: dict[int, list[TopicPartition]] = defaultdict(list)
    for place in places:
        topic = view.topics.get(place.topic)
        partition = topic and topic.partitions.get(place.partition)
        if partition and partition.leader in view.brokers:
            by_leader[partition.leader].append(place)
    found: Offsets = {}

    async def ask(leader: int, led: list[TopicPartition]) -> None:
        rest = iter(led)
        while asked := list(itertools.islice(rest, _PARTITIONS_ASKED)):
            request = _request(asked, timestamp, isolation)
            connection = await connections.broker(leader)
            answer = await connection.request("list_offsets", request, version_max=_VERSION_MAX)
            for topic in answer.topics:
                for each in topic.partitions:
                    if each.error_code is ErrorCode.none and each.offset >= 0:
                        place = TopicPartition(topic.name, each.partition_index)
                        found[place] = OffsetAndTimestamp(each.offset, each.timestamp)

    answers = (ask(*each) for each in by_leader.items())
    raise_unless_absent(await asyncio.gather(*answers, return_exceptions=True))
    return found


def raise_unless_absent(outcomes: Iterable[object]) -> None:
    """Raise the first error that is not about one broker only, which may be down for a moment."""
    for each in outcomes:
        if isinstance(each, BaseException) and (
            isinstance(each, AuthenticationFailed) or not isinstance(each, PeerError | KafkaError)
        ):
            raise each


def _request(
    places: list[TopicPartition], timestamp: int, isolation: Isolation
) -> ListOffsetsRequest:
    topics = (
        ListOffsetsTopic(
            name=topic,
            partitions=tuple(
                ListOffsetsPartition(partition_index=each, timestamp=timestamp)
                for each in partitions
            ),
        )
        for topic, partitions in by_topic(places).items()
    )
    return ListOffsetsRequest(
        replica_id=_NOT_A_REPLICA,
        isolation_level=ISOLATION_LEVELS[isolation],
        topics=tuple(topics),
    )
