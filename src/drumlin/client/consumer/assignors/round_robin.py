"""Kafka's `roundrobin`: all partitions in order, assigned to members in turn."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle

from drumlin.client.consumer.assignors.members import (
    Assignment,
    Member,
    all_partitions,
    in_order,
    subscribers,
)
from drumlin.client.topic_partition import TopicPartition


def assign(partition_counts: Mapping[str, int], members: list[Member]) -> Assignment:
    """The assignment; members that are not subscribed to a topic are skipped for it."""
    assignment: Assignment = {each.member_id: set() for each in members}
    turn = cycle(in_order(members))
    for topic, partition in all_partitions(partition_counts, subscribers(members)):
        member = next(each for each in turn if topic in each.subscription.topics)
        assignment[member.member_id].add(TopicPartition(topic, partition))
    return assignment
