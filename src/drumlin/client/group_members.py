"""Members of a group and the partitions they hold, whichever protocol the group speaks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from drumlin.client.offsets import TopicPartition
from drumlin.wire.embedded_protocol import read_assigned


@dataclass(frozen=True, slots=True)
class Member:
    """One member of a group."""

    member_id: str
    client_id: str
    host: str
    instance_id: str | None
    partitions: list[TopicPartition]

    def as_row(self) -> dict[str, Any]:
        return {
            "member_id": self.member_id,
            "client_id": self.client_id,
            "host": self.host,
            "instance_id": self.instance_id,
            "partitions": [f"{topic}-{partition}" for topic, partition in self.partitions],
        }


def classic_members(members: Iterable[Any]) -> list[Member]:
    """Members as DescribeGroups answers them."""
    return [
        Member(
            each.member_id,
            each.client_id,
            each.client_host,
            getattr(each, "group_instance_id", None),
            _assigned(each.member_assignment),
        )
        for each in members
    ]


def consumer_members(members: Iterable[Any]) -> list[Member]:
    """Members as ConsumerGroupDescribe and ShareGroupDescribe answer them."""
    return [
        Member(
            each.member_id,
            each.client_id,
            each.client_host,
            getattr(each, "instance_id", None),
            [
                (topic.topic_name, partition)
                for topic in each.assignment.topic_partitions
                for partition in topic.partitions
            ],
        )
        for each in members
    ]


def _assigned(assignment: bytes) -> list[TopicPartition]:
    """The partitions in a consumer's assignment; nothing for what other protocols put there."""
    try:
        partitions = read_assigned(assignment)
    except ValueError:
        return []
    return [(topic, number) for topic, numbers in partitions.items() for number in numbers]
