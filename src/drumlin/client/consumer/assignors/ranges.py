"""Kafka's `range`: divides each topic by itself into ranges of consecutive partitions.

Topics with the same subscribers and partition count are assigned alike.
"""

from __future__ import annotations

from collections.abc import Mapping

from drumlin.client.consumer.assignors.members import Assignment, Member, subscribers
from drumlin.client.topic_partition import TopicPartition


def assign(partition_counts: Mapping[str, int], members: list[Member]) -> Assignment:
    """The assignment; the first members get the remainder, one partition each."""
    assignment: Assignment = {each.member_id: set() for each in members}
    for topic, wanting in subscribers(members).items():
        share, rest = divmod(partition_counts.get(topic, 0), len(wanting))
        start = 0
        for index, member in enumerate(wanting):
            end = start + share + (index < rest)
            assignment[member.member_id].update(
                TopicPartition(topic, each) for each in range(start, end)
            )
            start = end
    return assignment
