"""What a group has committed: read, and written by somebody who is no member of it.

A broker accepts offsets from outside only while the group has no members.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final

from drumlin.cli.cluster import Cluster, check
from drumlin.client.offsets import TopicPartition
from drumlin.wire.messages import Shape

_NAMES_UP_TO: Final = 9  # later versions of both requests name topics by id
_NO_GENERATION: Final = -1


def committed(cluster: Cluster, group: str) -> dict[TopicPartition, int]:
    """Every offset that the group has committed."""

    def build(shape: Shape) -> object:
        if shape.has("OffsetFetchRequestGroup"):
            wanted = shape("OffsetFetchRequestGroup", group_id=group, topics=None)
            return shape("OffsetFetchRequest", groups=(wanted,))
        return shape("OffsetFetchRequest", group_id=group, topics=None)

    response = cluster.ask_coordinator(group, "offset_fetch", build, _NAMES_UP_TO)
    answer = response.groups[0] if hasattr(response, "groups") else response
    check(answer.error_code, f"offsets of group {group!r}")
    return {
        (topic.name, part.partition_index): part.committed_offset
        for topic in answer.topics
        for part in topic.partitions
        if part.committed_offset >= 0
    }


def commit(cluster: Cluster, group: str, positions: Mapping[TopicPartition, int]) -> None:
    """Commit where reading goes on."""
    by_topic: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for (topic, partition), offset in positions.items():
        by_topic[topic].append((partition, offset))

    def build(shape: Shape) -> object:
        return shape(
            "OffsetCommitRequest",
            group_id=group,
            generation_id_or_member_epoch=_NO_GENERATION,
            member_id="",
            topics=tuple(_topic(shape, *each) for each in by_topic.items()),
        )

    response = cluster.ask_coordinator(group, "offset_commit", build, _NAMES_UP_TO)
    for answer in response.topics:
        for part in answer.partitions:
            check(part.error_code, f"group {group!r}, {answer.name}-{part.partition_index}")


def _topic(shape: Shape, topic: str, offsets: list[tuple[int, int]]) -> Any:
    parts = (
        shape(
            "OffsetCommitRequestPartition",
            partition_index=partition,
            committed_offset=offset,
            committed_metadata=None,
        )
        for partition, offset in offsets
    )
    return shape("OffsetCommitRequestTopic", name=topic, partitions=tuple(parts))
