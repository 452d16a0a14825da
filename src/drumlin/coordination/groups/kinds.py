"""How a group of each kind is made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from drumlin.coordination.groups.classic.group import Group
from drumlin.coordination.groups.consumer.group import ConsumerGroup
from drumlin.coordination.groups.kind import AnyGroup, GroupKind
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
