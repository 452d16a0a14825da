"""A client's view of the cluster, from metadata responses: brokers, topics, partitions, leaders.

Plain state without I/O. It may be out of date at any time; code that notices this refreshes it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from drumlin.peer.connection import Address
from drumlin.wire.error_codes import ErrorCode, KafkaError


@dataclass(frozen=True, slots=True)
class PartitionView:
    """One partition. `leader` is -1 while there is none."""

    index: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicView:
    """One topic; `partitions` by number, ascending."""

    name: str
    topic_id: UUID | None
    is_internal: bool
    partitions: dict[int, PartitionView]
    seen_at: float = field(default_factory=time.monotonic, compare=False)


@dataclass(slots=True)
class ClusterView:
    """The last known state of the cluster, filled by `update`."""

    cluster_id: str | None = None
    controller_id: int = -1
    brokers: dict[int, Address] = field(default_factory=dict)
    topics: dict[str, TopicView] = field(default_factory=dict)
    #: Node ids of coordinators, by kind and name; cleared when an attempt fails.
    coordinators: dict[tuple[int, str], int] = field(default_factory=dict)

    def update(self, response: Any) -> dict[str, ErrorCode]:
        """Apply a metadata response; returns the refused topics with their errors."""
        self.cluster_id = response.cluster_id
        self.controller_id = response.controller_id
        self.brokers = {each.node_id: Address(each.host, each.port) for each in response.brokers}
        refused: dict[str, ErrorCode] = {}
        for topic in response.topics:
            if topic.error_code is ErrorCode.none:
                self.topics[topic.name] = _topic_view(topic)
            else:
                self.topics.pop(topic.name, None)
                refused[topic.name] = topic.error_code
        return refused

    def leader_of(self, topic: str, partition: int) -> int:
        """The broker that leads a partition.

        Raises:
            KafkaError: the topic or partition is not in this view, or has no leader at the moment.
        """
        known = self.topics.get(topic)
        if known is None or partition not in known.partitions:
            what = f"topic {topic!r}" if known is None else f"topic {topic!r} partition {partition}"
            raise KafkaError(ErrorCode.unknown_topic_or_partition, f"{what} does not exist")
        leader = known.partitions[partition].leader
        if leader not in self.brokers:
            raise KafkaError(
                ErrorCode.leader_not_available, f"topic {topic!r} partition {partition}: no leader"
            )
        return leader


def _topic_view(topic: Any) -> TopicView:
    partitions = [
        PartitionView(
            each.partition_index,
            each.leader_id,
            each.leader_epoch,
            tuple(each.replica_nodes),
            tuple(each.isr_nodes),
        )
        for each in topic.partitions
    ]
    return TopicView(
        topic.name,
        topic.topic_id,
        topic.is_internal,
        {each.index: each for each in sorted(partitions, key=lambda each: each.index)},
    )
