"""Topics: all of them with their sizes, and one with its partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from drumlin.client.admin import admin
from drumlin.client.admin.admin import TopicDescription
from drumlin.client.read.log_bounds import LogBounds, bounds_of
from drumlin.client.topic_partition import TopicPartition
from drumlin.console.answers.asking import Answer
from drumlin.console.answers.log_dirs import log_dirs
from drumlin.peer.broker_connections import BrokerConnections
from drumlin.peer.cluster_view import PartitionView
from drumlin.peer.rights import refusal

_TOPICS_MAX: Final = 20_000
_PARTITIONS_MAX: Final = 200_000


async def topics(connections: BrokerConnections, *, internal: bool) -> Answer:
    """The topics that this user may see. Sizes and offsets are those of leaders.

    Two such answers show the rates of all topics: `end_offsets` is the sum of a topic's.
    """
    found = (await admin.look_up_topics(connections, None)).found
    wanted = [each for each in found.values() if internal or not each.is_internal]
    shown, partitions = [], 0
    for each in wanted[:_TOPICS_MAX]:
        partitions += len(each.partitions)
        if partitions > _PARTITIONS_MAX:
            break
        shown.append(each)
    places = [TopicPartition(t.name, p.index) for t in shown for p in t.partitions]
    bounds = await bounds_of(connections, places, "read_uncommitted", led_only=True)
    sizes = await _leaders_sizes(connections, {t.name: t.partitions for t in shown})
    alive = connections.view.brokers
    rows = []
    for each in shown:
        logs = [bounds.get(TopicPartition(each.name, p.index)) for p in each.partitions]
        known = [log for log in logs if log is not None]
        rows.append(
            {
                "name": each.name,
                "is_internal": each.is_internal,
                "partitions": len(each.partitions),
                "replicas": max((len(p.replicas) for p in each.partitions), default=0),
                "under_replicated": sum(len(p.isr) < len(p.replicas) for p in each.partitions),
                "offline": sum(p.leader not in alive for p in each.partitions),
                "offsets": sum(log.end_offset - log.start_offset for log in known),
                "end_offsets": sum(log.end_offset for log in known),
                "size_bytes": sizes.get(each.name),
            }
        )
    return {"topics": rows, "not_shown": len(wanted) - len(shown)}


async def topic(connections: BrokerConnections, name: str) -> Answer:
    """One topic: its partitions with leaders, replicas, offsets and sizes.

    Raises:
        KafkaError: there is no such topic, or this user may not see it.
    """
    described = await existing_topic(connections, name)
    places = [TopicPartition(name, p.index) for p in described.partitions]
    bounds = await bounds_of(connections, places, "read_uncommitted", led_only=True)
    stored = await log_dirs(connections, [name])

    def row(part: PartitionView) -> Answer:
        log: LogBounds | None = bounds.get(TopicPartition(name, part.index))
        of_leader = stored.get(part.leader)
        has_size = of_leader is not None and of_leader.error is None
        return {
            "partition": part.index,
            "leader": part.leader,
            "leader_epoch": part.leader_epoch,
            "replicas": list(part.replicas),
            "isr": list(part.isr),
            "start_offset": None if log is None else log.start_offset,
            "end_offset": None if log is None else log.end_offset,
            "size_bytes": of_leader.sizes[name, part.index] if of_leader and has_size else None,
        }

    return {
        "name": name,
        "topic_id": described.topic_id,
        "is_internal": described.is_internal,
        "partitions": [row(part) for part in described.partitions],
    }


async def existing_topic(connections: BrokerConnections, name: str) -> TopicDescription:
    """A topic, or at once the error that there is none.

    Raises:
        KafkaError: there is no such topic, or this user may not see it.
    """
    lookup = await admin.look_up_topics(connections, [name])
    if name in lookup.refused:
        raise refusal("metadata", lookup.refused[name], f"topic {name!r}")
    return lookup.found[name]


async def _leaders_sizes(
    connections: BrokerConnections, wanted: Mapping[str, Iterable[PartitionView]]
) -> dict[str, int]:
    """Bytes by topic; without the topics of which a leader does not tell them."""
    stored = await log_dirs(connections, list(wanted))
    told = {node_id: each.sizes for node_id, each in stored.items() if each.error is None}
    return {
        name: sum(told[part.leader][name, part.index] for part in partitions)
        for name, partitions in wanted.items()
        if all(part.leader in told for part in partitions)
    }
