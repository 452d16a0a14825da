"""The members of a group as a leader sees them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from drumlin.client.consumer.assignors.subscription import MemberSubscription
from drumlin.client.topic_partition import TopicPartition

#: Member id to partitions; every member is in it.
Assignment = dict[str, set[TopicPartition]]


class Member(NamedTuple):
    member_id: str
    group_instance_id: str | None
    subscription: MemberSubscription


def in_order(members: Iterable[Member]) -> list[Member]:
    """Static members first, by what stays the same over their restarts."""
    return sorted(
        members,
        key=lambda each: (
            each.group_instance_id is None,
            each.group_instance_id or each.member_id,
            each.member_id,
        ),
    )


def subscribers(members: Iterable[Member]) -> dict[str, list[Member]]:
    """Topic to the members that want it, in their order."""
    found: dict[str, list[Member]] = {}
    for member in in_order(members):
        for topic in dict.fromkeys(member.subscription.topics):
            found.setdefault(topic, []).append(member)
    return found


def all_partitions(
    partition_counts: Mapping[str, int], topics: Iterable[str]
) -> list[TopicPartition]:
    """Sorted; topics that do not exist have none."""
    return [
        TopicPartition(topic, partition)
        for topic in sorted(topics)
        for partition in range(partition_counts.get(topic, 0))
    ]
