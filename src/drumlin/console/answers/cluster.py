"""The cluster: its brokers, what they lead and store, and partitions that are not well."""

from __future__ import annotations

from collections import Counter
from typing import Any

from drumlin.console.answers.asking import Answer, ask_any, check
from drumlin.console.answers.log_dirs import log_dirs
from drumlin.peer.broker_connections import BrokerConnections
from drumlin.wire.protocol.describe_cluster import DescribeClusterRequest

_REQUEST = DescribeClusterRequest(
    include_cluster_authorized_operations=False, include_fenced_brokers=False
)


async def cluster(connections: BrokerConnections) -> Answer:
    """The cluster's id and its brokers; counts are of the topics that this user may see."""
    await connections.retrying(lambda: connections.refresh(None))
    described: Any = await ask_any(connections, "describe_cluster", _REQUEST)
    check("describe_cluster", described.error_code, "the cluster", described.error_message)
    stored = await log_dirs(connections)
    topics = list(connections.view.topics.values())
    partitions = [part for topic in topics for part in topic.partitions.values()]
    led = Counter(part.leader for part in partitions)
    held = Counter(node_id for part in partitions for node_id in part.replicas)
    alive = connections.view.brokers
    return {
        "cluster_id": described.cluster_id,
        "controller_id": described.controller_id,
        "topics": len(topics),
        "partitions": len(partitions),
        "under_replicated": sum(len(part.isr) < len(part.replicas) for part in partitions),
        "offline": sum(part.leader not in alive for part in partitions),
        "brokers": [
            {
                "id": each.broker_id,
                "host": each.host,
                "port": each.port,
                "rack": each.rack,
                "leaders": led[each.broker_id],
                "replicas": held[each.broker_id],
                "directories": stored[each.broker_id].directories,
                "error": stored[each.broker_id].error,
            }
            for each in sorted(described.brokers, key=lambda each: each.broker_id)
            if each.broker_id in stored
        ],
    }
