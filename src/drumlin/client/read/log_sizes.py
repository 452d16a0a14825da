"""The sizes of partitions in their leaders' logs, used to plan large reads."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Any

from drumlin.client.read.offsets import by_topic, learn_leaders
from drumlin.client.topic_partition import TopicPartition
from drumlin.peer.broker_connections import BrokerConnections
from drumlin.wire.protocol.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest


async def partition_sizes(
    connections: BrokerConnections, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, int]:
    """The sizes that brokers report, with one request to each leader.

    A broker leaves out topics that the user may not describe, so partitions may be missing.
    """
    topics = {topic for topic, _ in partitions}

    async def attempt() -> dict[TopicPartition, int]:
        await learn_leaders(connections, topics)
        by_leader: dict[int, list[TopicPartition]] = defaultdict(list)
        for topic, partition in partitions:
            by_leader[connections.view.leader_of(topic, partition)].append(
                TopicPartition(topic, partition)
            )
        answers = await asyncio.gather(
            *(_ask(connections, leader, led) for leader, led in by_leader.items())
        )
        return {place: size for answer in answers for place, size in answer.items()}

    return await connections.retrying(attempt, topics=topics)


async def _ask(
    connections: BrokerConnections, leader: int, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, int]:
    wanted = [
        DescribableLogDirTopic(topic=topic, partitions=tuple(each))
        for topic, each in by_topic(partitions).items()
    ]
    request = DescribeLogDirsRequest(topics=tuple(wanted))
    connection = await connections.broker(leader)
    response: Any = await connection.request("describe_log_dirs", request)
    return {
        TopicPartition(topic.name, each.partition_index): each.partition_size
        for result in response.results
        for topic in result.topics
        for each in topic.partitions
        if not each.is_future_key  # a copy that is being moved to another folder
    }
