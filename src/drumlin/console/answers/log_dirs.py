"""What brokers report of their log directories: sizes of partitions, and free space."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from drumlin.console.answers.asking import Answer, ask_broker, check
from drumlin.peer.broker_connections import BrokerConnections
from drumlin.peer.peer_error import PeerError
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.protocol.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest


@dataclass(slots=True)
class BrokerDirectories:
    """The answer of one broker, or the reason why there is none."""

    directories: list[Answer] = field(default_factory=list)
    #: Bytes by topic and partition, without copies that are being moved to another directory.
    sizes: Counter[tuple[str, int]] = field(default_factory=Counter)
    error: str | None = None


async def log_dirs(
    connections: BrokerConnections, topics: Collection[str] | None = None
) -> dict[int, BrokerDirectories]:
    """The directories of every broker; with `topics`, only their partitions are counted."""
    node_ids = sorted(connections.view.brokers)
    asked = None
    if topics is not None:
        view = connections.view.topics
        asked = tuple(
            DescribableLogDirTopic(topic=each, partitions=tuple(view[each].partitions))
            for each in topics
            if each in view
        )
    request = DescribeLogDirsRequest(topics=asked)
    found = await asyncio.gather(*(_of_broker(connections, each, request) for each in node_ids))
    return dict(zip(node_ids, found, strict=True))


async def _of_broker(
    connections: BrokerConnections, node_id: int, request: DescribeLogDirsRequest
) -> BrokerDirectories:
    found = BrokerDirectories()
    try:
        response: Any = await ask_broker(connections, node_id, "describe_log_dirs", request)
        check("describe_log_dirs", response.error_code, f"log directories of broker {node_id}")
    except (KafkaError, PeerError) as error:
        found.error = str(error)
        return found
    for each in response.results:
        parts = [
            (topic.name, part.partition_index, part.partition_size)
            for topic in each.topics
            for part in topic.partitions
            if not part.is_future_key
        ]
        for name, index, size in parts:
            found.sizes[name, index] += size
        found.directories.append(
            {
                "path": each.log_dir,
                "error": None if each.error_code is ErrorCode.none else each.error_code.name,
                "partitions": len(parts),
                "used_bytes": sum(size for _, _, size in parts),
                "total_bytes": each.total_bytes if each.total_bytes >= 0 else None,
                "usable_bytes": each.usable_bytes if each.usable_bytes >= 0 else None,
            }
        )
    return found
