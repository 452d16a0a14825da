"""The log dirs of all brokers, with the sizes of their logs, for looks at a whole cluster.

A broker that does not answer now is left out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain

from drumlin.cli.reach.partition_offsets import raise_unless_absent
from drumlin.client.topic_partition import TopicPartition
from drumlin.peer.broker_connections import BrokerConnections
from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.protocol.describe_log_dirs import DescribeLogDirsRequest


@dataclass(frozen=True, slots=True)
class LogDir:
    """One log dir of a broker. `error`: why it is offline. Bytes of the disk are None if the
    broker does not tell them (before Kafka 3.3).
    """

    broker: int
    path: str
    error: str | None
    total_bytes: int | None
    usable_bytes: int | None
    sizes: Mapping[TopicPartition, int]


async def log_dirs(connections: BrokerConnections) -> list[LogDir]:
    """The log dirs of all brokers in the view that tell them to this user.

    Copies that are being moved are not counted.
    """

    async def ask(node_id: int) -> list[LogDir]:
        connection = await connections.broker(node_id)
        answer = await connection.request("describe_log_dirs", DescribeLogDirsRequest(topics=None))
        return [
            LogDir(
                node_id,
                each.log_dir,
                None if each.error_code is ErrorCode.none else each.error_code.name,
                each.total_bytes if each.total_bytes >= 0 else None,
                each.usable_bytes if each.usable_bytes >= 0 else None,
                {
                    TopicPartition(topic.name, part.partition_index): part.partition_size
                    for topic in each.topics
                    for part in topic.partitions
                    if not part.is_future_key
                },
            )
            for each in answer.results
        ]

    asking = map(ask, sorted(connections.view.brokers))
    outcomes = await asyncio.gather(*asking, return_exceptions=True)
    raise_unless_absent(outcomes)
    return [*chain.from_iterable(each for each in outcomes if not isinstance(each, BaseException))]
