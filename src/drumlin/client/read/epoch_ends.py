"""Looks up where the records of a leader epoch end in a log (KIP-320)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from drumlin.client.read.offsets import learn_leaders
from drumlin.client.topic_partition import TopicPartition
from drumlin.peer.broker_connections import BrokerConnections
from drumlin.peer.peer_error import InvalidResponse
from drumlin.peer.rights import refusal
from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.protocol.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

_NOT_A_REPLICA: Final = -1


class EpochEnd(NamedTuple):
    """The latest epoch in a log that is not later than the one asked for, and where it ends."""

    leader_epoch: int  # -1: there is none
    end_offset: int  # -1: there is none


async def epoch_end(
    connections: BrokerConnections, place: TopicPartition, leader_epoch: int
) -> EpochEnd:
    """The end of one epoch in a partition's log; tries again while there is no leader."""

    async def attempt() -> EpochEnd:
        await learn_leaders(connections, {place.topic})
        leader = connections.view.leader_of(*place)
        found = await ask_epoch_ends(connections, leader, {place: (-1, leader_epoch)})
        if place not in found:
            raise InvalidResponse(f"{place}: missing in the response to offset_for_leader_epoch")
        return found[place]

    return await connections.retrying(attempt, topics={place.topic})


async def ask_epoch_ends(
    connections: BrokerConnections,
    leader: int,
    wanted: Mapping[TopicPartition, tuple[int, int]],
) -> dict[TopicPartition, EpochEnd]:
    """Ask one broker, once.

    Args:
        connections: the cluster.
        leader: the broker that leads the partitions.
        wanted: its current epoch (-1: whatever it is), and the epoch to look up.

    Raises:
        KafkaError: the broker does not lead a partition in this epoch.
        PeerError: it does not answer.
    """
    by_topic: dict[str, list[Any]] = defaultdict(list)
    for (topic, partition), (current, leader_epoch) in wanted.items():
        each = OffsetForLeaderPartition(
            partition=partition, current_leader_epoch=current, leader_epoch=leader_epoch
        )
        by_topic[topic].append(each)
    request = OffsetForLeaderEpochRequest(
        replica_id=_NOT_A_REPLICA,
        topics=tuple(
            OffsetForLeaderTopic(topic=topic, partitions=tuple(partitions))
            for topic, partitions in by_topic.items()
        ),
    )
    connection = await connections.broker(leader)
    response = await connection.request("offset_for_leader_epoch", request)
    found = {}
    for topic in response.topics:
        for each in topic.partitions:
            place = TopicPartition(topic.topic, each.partition)
            if place not in wanted:
                continue  # not requested
            if each.error_code is not ErrorCode.none:
                where = f"offset_for_leader_epoch of topic {topic.topic!r}"
                raise refusal("offset_for_leader_epoch", each.error_code, where)
            found[place] = EpochEnd(each.leader_epoch, each.end_offset)
    return found
