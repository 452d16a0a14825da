"""Assignors: the rules by which a group's leader assigns partitions to members.

Names, and the bytes that members exchange, are those of Kafka's own clients, so that a group
may mix clients. Pure functions of the members' subscriptions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from drumlin.client.consumer.assignors import ranges, round_robin, sticky
from drumlin.client.consumer.assignors.members import Assignment, Member
from drumlin.client.consumer.assignors.own_assignor import OwnAssignor

__all__ = [
    "ASSIGNORS",
    "Assignment",
    "Assignor",
    "Member",
    "OwnAssignor",
    "is_cooperative",
    "own_assignor",
]


class Assignor(NamedTuple):
    """One rule. With `is_cooperative`, members keep their partitions during a rebalance."""

    assign: Callable[[Mapping[str, int], list[Member]], Assignment]
    is_cooperative: bool = False


ASSIGNORS: Final[dict[str, Assignor]] = {
    "range": Assignor(ranges.assign),
    "roundrobin": Assignor(round_robin.assign),
    "sticky": Assignor(sticky.assign),
    "cooperative-sticky": Assignor(sticky.assign_cooperatively, is_cooperative=True),
}


def is_cooperative(assignors: Iterable[str | OwnAssignor]) -> bool:
    """Whether a member may keep partitions while it joins: all its assignors must allow it."""
    return all(
        isinstance(each, OwnAssignor) or ASSIGNORS[each].is_cooperative for each in assignors
    )


def own_assignor(assignors: Iterable[str | OwnAssignor], name: str) -> OwnAssignor | None:
    """The custom assignor of this name, if `assignors` has one."""
    own = (each for each in assignors if isinstance(each, OwnAssignor) and each.name == name)
    return next(own, None)
