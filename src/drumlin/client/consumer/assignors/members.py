"""The members of a group, as the group's leader receives them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from drumlin.client.consumer.assignors.subscription import MemberSubscription
from drumlin.client.topic_partition import TopicPartition

#: The partitions of every member, by member id.
Assignment = dict[str, set[TopicPartition]]


class Member(NamedTuple):
    member_id: str
    group_instance_id: str | None
    subscription: MemberSubscription


def in_order(members: Iterable[Member]) -> list[Member]:
    """Sort members: static ones first, by instance id, so a restart does not change the order."""
    return sorted(
        members,
        key=lambda each: (
            each.group_instance_id is None,
            each.group_instance_id or each.member_id,
            each.member_id,
        ),
    )


def subscribers(members: Iterable[Member]) -> dict[str, list[Member]]:
    """The subscribers of each topic, in order."""
    found: dict[str, list[Member]] = {}
    for member in in_order(members):
        for topic in dict.fromkeys(member.subscription.topics):
            found.setdefault(topic, []).append(member)
    return found


def all_partitions(
    partition_counts: Mapping[str, int], topics: Iterable[str]
) -> list[TopicPartition]:
    """All partitions of the topics, sorted; a missing topic has none."""
    return [
        TopicPartition(topic, partition)
        for topic in sorted(topics)
        for partition in range(partition_counts.get(topic, 0))
    ]
