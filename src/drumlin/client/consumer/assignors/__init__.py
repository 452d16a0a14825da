"""Assignors: the rules by which a group's leader assigns partitions to members.

Names, and the bytes that members exchange, are those of Kafka's own clients, so that a group
may mix clients. Pure functions of the members' subscriptions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from drumlin.client.consumer.assignors import ranges, round_robin, sticky
from drumlin.client.consumer.assignors.members import Assignment, Member

__all__ = ["ASSIGNORS", "Assignment", "Assignor", "Member", "is_cooperative"]


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


def is_cooperative(names: tuple[str, ...]) -> bool:
    """Whether a member may keep partitions while it joins: all its assignors must allow it."""
    return all(ASSIGNORS[each].is_cooperative for each in names)
