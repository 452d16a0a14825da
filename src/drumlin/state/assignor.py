"""Which member of a group owns a partition, and which ones stand by for it.

Partitions stay where they are as far as their numbers allow. One that has to move goes to a member
that has a replica of its state, and its standbys are members that have one already. Everything is
decided by the group's leader, from what members tell when they join.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final

from drumlin.client.consumer.assignors.members import Assignment, Member, in_order
from drumlin.client.consumer.assignors.sticky import assign_cooperatively
from drumlin.client.topic_partition import TopicPartition
from drumlin.lowlevel import OwnAssignor

_REPLICAS: Final = "replicas"
_STANDBYS: Final = "standbys"


class StateAssignor(OwnAssignor):
    """Assigns the partitions of one input."""

    name = "drumlin-state"

    def __init__(
        self,
        topic: str,
        standbys: int,
        replicas: Callable[[], Mapping[int, int]],
        follow: Callable[[frozenset[int]], None],
    ) -> None:
        """
        Args:
            topic: the input.
            standbys: the number of standbys of each partition.
            replicas: the partitions that this process has a replica of, and how far it goes.
            follow: gets the partitions that this process has to stand by for.
        """
        self._topic = topic
        self._standbys = standbys
        self._replicas = replicas
        self._follow = follow

    def user_data(self) -> bytes:
        told = {str(partition): offset for partition, offset in self._replicas().items()}
        return json.dumps({_REPLICAS: told}, separators=(",", ":")).encode()

    def told(self, user_data: bytes) -> None:
        standbys = _read(user_data).get(_STANDBYS)
        found = standbys if isinstance(standbys, list) else []
        self._follow(frozenset(each for each in found if type(each) is int))

    def assign(
        self, partition_counts: Mapping[str, int], members: list[Member]
    ) -> tuple[Assignment, Mapping[str, bytes]]:
        replicas = {each.member_id: _replicas_of(each) for each in members}
        places = [
            TopicPartition(self._topic, each)
            for each in range(partition_counts.get(self._topic, 0))
        ]
        suited = {place: _suited(place.partition, replicas) for place in places}
        assignment = assign_cooperatively(partition_counts, members, suited)
        standbys: dict[str, list[int]] = {each.member_id: [] for each in members}
        load = Counter[str]()
        for place in places:
            others = [
                each.member_id
                for each in in_order(members)
                if self._topic in each.subscription.topics
                and place not in assignment[each.member_id]
            ]
            others.sort(key=lambda each: (place.partition not in replicas[each], load[each]))
            for each in others[: self._standbys]:
                standbys[each].append(place.partition)
                load[each] += 1
        return assignment, {
            each: json.dumps({_STANDBYS: partitions}, separators=(",", ":")).encode()
            for each, partitions in standbys.items()
        }


def _suited(partition: int, replicas: Mapping[str, Mapping[int, int]]) -> list[str]:
    """The members that have a replica, the one that goes furthest first."""
    found = [each for each, offsets in replicas.items() if partition in offsets]
    return sorted(found, key=lambda each: (-replicas[each][partition], each))


def _replicas_of(member: Member) -> dict[int, int]:
    told = _read(member.subscription.user_data or b"").get(_REPLICAS)
    if not isinstance(told, dict):
        return {}
    return {
        int(partition): offset
        for partition, offset in told.items()
        if partition.isdecimal() and type(offset) is int
    }


def _read(user_data: bytes) -> dict[str, Any]:
    """What a member or the leader tells; nothing, if it is another program's."""
    try:
        told = json.loads(user_data or b"{}")
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}
