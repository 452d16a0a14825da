"""The members of a group and their partitions, for all group protocols."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from drumlin.client.topic_partition import TopicPartition
from drumlin.wire.embedded_protocol import read_assigned


@dataclass(frozen=True, slots=True)
class Member:
    """One member of a group."""

    member_id: str
    client_id: str
    host: str
    instance_id: str | None
    partitions: list[TopicPartition]
    epoch: int | None = None  # None in a classic group, like `target`
    target: list[TopicPartition] | None = None

    def as_row(self) -> dict[str, Any]:
        return {
            "member_id": self.member_id,
            "client_id": self.client_id,
            "host": self.host,
            "instance_id": self.instance_id,
            "partitions": _names(self.partitions),
            "member_epoch": self.epoch,
            "target_partitions": None if self.target is None else _names(self.target),
        }


def _names(partitions: Iterable[TopicPartition]) -> list[str]:
    return [f"{topic}-{partition}" for topic, partition in partitions]


def classic_members(members: Iterable[Any]) -> list[Member]:
    """The members in a DescribeGroups response."""
    return [
        Member(
            each.member_id,
            each.client_id,
            each.client_host,
            each.group_instance_id,
            _assigned(each.member_assignment),
        )
        for each in members
    ]


def consumer_members(members: Iterable[Any]) -> list[Member]:
    """The members in a ConsumerGroupDescribe or ShareGroupDescribe response."""
    return [
        Member(
            each.member_id,
            each.client_id,
            each.client_host,
            getattr(each, "instance_id", None),
            _in_assignment(each.assignment),
            each.member_epoch,
            # Share groups have no target assignment: members may share partitions.
            _in_assignment(each.target_assignment) if hasattr(each, "target_assignment") else None,
        )
        for each in members
    ]


def _in_assignment(assignment: Any) -> list[TopicPartition]:
    return [
        TopicPartition(topic.topic_name, partition)
        for topic in assignment.topic_partitions
        for partition in topic.partitions
    ]


def _assigned(assignment: bytes) -> list[TopicPartition]:
    """The partitions in a consumer's assignment; none if it belongs to another protocol type."""
    try:
        partitions = read_assigned(assignment)
    except ValueError:
        return []
    return [
        TopicPartition(topic, number) for topic, numbers in partitions.items() for number in numbers
    ]
