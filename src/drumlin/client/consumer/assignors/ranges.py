"""Kafka's `range`: each topic by itself, in runs of neighbouring partitions.

Members with the same place in the order get the same partitions of topics of the same size.
"""

from __future__ import annotations

from collections.abc import Mapping

from drumlin.client.consumer.assignors.members import Assignment, Member, subscribers
from drumlin.client.topic_partition import TopicPartition


def assign(partition_counts: Mapping[str, int], members: list[Member]) -> Assignment:
    """The first members get one more where it does not come out even."""
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
