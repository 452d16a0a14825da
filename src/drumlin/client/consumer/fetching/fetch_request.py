"""One Fetch for many partitions of one leader, each from its own offset."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final, NamedTuple
from uuid import UUID

from drumlin.client.topic_partition import TopicPartition
from drumlin.peer.connection import BrokerConnection
from drumlin.peer.options import ISOLATION_LEVELS, Isolation
from drumlin.peer.rights import refusal
from drumlin.wire.by_hand.fetch_response import (
    VERSION_MAX,
    VERSION_MAX_WITH_NAMES,
    FetchResponse,
    PartitionFetch,
    parse_fetch_response,
)
from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.protocol.fetch import FetchPartition, FetchRequest, FetchTopic

_CONSUMER: Final = -1


class Wanted(NamedTuple):
    """The offset to fetch from in one partition, the epoch of its leader, and its topic's id."""

    place: TopicPartition
    offset: int
    leader_epoch: int
    topic_id: UUID | None


class Limits(NamedTuple):
    max_bytes: int
    partition_max_bytes: int
    max_wait_ms: int
    isolation: Isolation


async def fetch_partitions(
    connection: BrokerConnection, wanted: Sequence[Wanted], limits: Limits
) -> dict[TopicPartition, PartitionFetch]:
    """Fetch from the leader, which fills its response in the order of the partitions.

    Names topics by id, if the broker supports that, as the topic of a name may be recreated.

    Raises:
        KafkaError: the broker's error for the whole request.
        PeerError: no answer.
    """
    ids = {each.place.topic: each.topic_id for each in wanted}
    version_max = VERSION_MAX if None not in ids.values() else VERSION_MAX_WITH_NAMES
    if connection.version_of("fetch", version_max) <= VERSION_MAX_WITH_NAMES:
        ids = dict.fromkeys(ids, None)
    by_topic: dict[str, list[Any]] = defaultdict(list)
    for (topic, partition), offset, leader_epoch, _ in wanted:
        each = FetchPartition(
            partition=partition,
            current_leader_epoch=leader_epoch,
            fetch_offset=offset,
            partition_max_bytes=limits.partition_max_bytes,
        )
        by_topic[topic].append(each)
    request = FetchRequest(
        replica_id=_CONSUMER,
        max_wait=timedelta(milliseconds=limits.max_wait_ms),
        min_bytes=1,
        max_bytes=limits.max_bytes,
        isolation_level=ISOLATION_LEVELS[limits.isolation],
        topics=tuple(
            FetchTopic(topic=topic, topic_id=ids[topic], partitions=tuple(partitions))
            for topic, partitions in by_topic.items()
        ),
        forgotten_topics_data=(),
    )
    response: FetchResponse = await connection.request(
        "fetch", request, version_max=version_max, parse=parse_fetch_response
    )
    if response.error_code is not ErrorCode.none:
        raise refusal("fetch", response.error_code, "fetch")
    names = {each.bytes: name for name, each in ids.items() if each is not None}
    return {
        TopicPartition(names.get(topic.topic_id, topic.name), each.partition): each
        for topic in response.topics
        for each in topic.partitions
    }
