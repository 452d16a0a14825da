"""Assigns the input partitions to the members of a group, as owners and as standbys.

The assignment is balanced and sticky. A partition that has to move goes to a member with a replica
of its state, if there is one, and its standbys are preferably members with a replica. The group's
leader decides, based on the replicas that members report when they join.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from drumlin.client.consumer.assignors.members import Assignment, Member, in_order
from drumlin.client.consumer.assignors.sticky import assign_cooperatively
from drumlin.client.topic_partition import TopicPartition
from drumlin.lowlevel import OwnAssignor

_REPLICAS: Final = "replicas"
_STANDBYS: Final = "standbys"


class StateAssignor(OwnAssignor):
    """Assigns the partitions of the inputs: partition N of all of them to the same member."""

    name = "drumlin-state"

    def __init__(
        self,
        inputs: Sequence[str],
        standbys: int,
        replicas: Callable[[], Mapping[int, int]],
        follow: Callable[[frozenset[int]], None],
    ) -> None:
        """
        Args:
            inputs: the input topics.
            standbys: the number of standbys per partition.
            replicas: returns the changelog offset that each local replica has reached.
            follow: called with the partitions for which this process is a standby.
        """
        self._inputs = inputs
        self._topic = inputs[0]
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
        # By the first input alone: the others go where it goes.
        counts = {self._topic: partition_counts.get(self._topic, 0)}
        assignment = assign_cooperatively(
            counts, [self._with_one(each) for each in members], suited
        )
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
        expanded = {
            member: {TopicPartition(topic, each) for _, each in found for topic in self._inputs}
            for member, found in assignment.items()
        }
        return expanded, {
            each: json.dumps({_STANDBYS: partitions}, separators=(",", ":")).encode()
            for each, partitions in standbys.items()
        }

    def _with_one(self, member: Member) -> Member:
        """The member as if it had subscribed to the first input only."""
        said = member.subscription
        topics = tuple(each for each in said.topics if each == self._topic)
        owned = frozenset(each for each in said.owned if each.topic == self._topic)
        return member._replace(subscription=said._replace(topics=topics, owned=owned))


def _suited(partition: int, replicas: Mapping[str, Mapping[int, int]]) -> list[str]:
    """The members with a replica, the most up-to-date one first."""
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
    """Decode the JSON of a member or the leader; empty if another program wrote it."""
    try:
        told = json.loads(user_data or b"{}")
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}
