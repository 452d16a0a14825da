"""Members of a group and the partitions they hold, whichever protocol the group speaks."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from drumlin.client.offsets import TopicPartition


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
            parse_assignment(each.member_assignment),
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


def parse_assignment(data: bytes) -> list[TopicPartition]:
    """The partitions in a consumer's assignment; nothing for what other protocols put there.

    int16 version, then an array of topics: a string and an array of int32 partitions.
    """
    partitions: list[TopicPartition] = []
    try:
        (topics,) = struct.unpack_from(">i", data, 2)
        position = 6
        for _ in range(topics):
            (length,) = struct.unpack_from(">h", data, position)
            topic = data[position + 2 : position + 2 + length].decode()
            position += 2 + length
            (count,) = struct.unpack_from(">i", data, position)
            numbers = struct.unpack_from(f">{count}i", data, position + 4)
            position += 4 + 4 * count
            partitions += [(topic, number) for number in numbers]
    except (struct.error, UnicodeDecodeError):
        return []
    return partitions
