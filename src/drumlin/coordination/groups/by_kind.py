"""What differs by kind: how a group is made, and what comes of its deadlines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from drumlin.coordination.groups.any_group import AnyGroup, Effect
from drumlin.coordination.groups.classic.group import Group
from drumlin.coordination.groups.classic.states import Deadline
from drumlin.coordination.groups.consumer import leaving
from drumlin.coordination.groups.consumer.group import ConsumerGroup
from drumlin.coordination.groups.kind import GroupKind
from drumlin.coordination.groups.surroundings import Surroundings
from drumlin.coordination.share.members.group import ShareGroup


def _classic(group_id: str, surroundings: Surroundings) -> AnyGroup:
    return Group(
        group_id,
        surroundings.rules,
        surroundings.clock,
        surroundings.deadlines,
        surroundings.new_id,
    )


_MAKERS: Final[dict[GroupKind, Callable[[str, Surroundings], AnyGroup]]] = {
    GroupKind.CLASSIC: _classic,
    GroupKind.CONSUMER: ConsumerGroup,
    GroupKind.SHARE: ShareGroup,
}


def new_group(kind: GroupKind, group_id: str, surroundings: Surroundings) -> AnyGroup:
    """An empty group, in memory only."""
    return _MAKERS[kind](group_id, surroundings)


_EXPIRE: Final[dict[GroupKind, Callable[[Any, Deadline], Sequence[Effect]]]] = {
    GroupKind.CLASSIC: Group.expire,
    GroupKind.CONSUMER: leaving.expire,
    GroupKind.SHARE: ShareGroup.expire,
}


def expire(group: AnyGroup, deadline: Deadline) -> Sequence[Effect]:
    """What comes of a deadline of the group that has passed."""
    return _EXPIRE[group.kind](group, deadline)
