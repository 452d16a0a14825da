"""Code that depends on the kind of group: construction, and the effects of deadlines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from drumlin.coordination.groups.classic.group import Group
from drumlin.coordination.groups.consumer import departure
from drumlin.coordination.groups.consumer.group import ConsumerGroup
from drumlin.coordination.groups.every_kind.any_group import AnyGroup, Effect
from drumlin.coordination.groups.every_kind.group_context import GroupContext
from drumlin.coordination.groups.every_kind.kind import GroupKind
from drumlin.coordination.groups.every_kind.states import Deadline
from drumlin.coordination.groups.share.group import ShareGroup


def _classic(group_id: str, context: GroupContext) -> AnyGroup:
    return Group(
        group_id,
        context.rules,
        context.clock,
        context.deadlines,
        context.new_id,
    )


_MAKERS: Final[dict[GroupKind, Callable[[str, GroupContext], AnyGroup]]] = {
    GroupKind.CLASSIC: _classic,
    GroupKind.CONSUMER: ConsumerGroup,
    GroupKind.SHARE: ShareGroup,
}


def new_group(kind: GroupKind, group_id: str, context: GroupContext) -> AnyGroup:
    """An empty group, in memory only."""
    return _MAKERS[kind](group_id, context)


_EXPIRE: Final[dict[GroupKind, Callable[[Any, Deadline], Sequence[Effect]]]] = {
    GroupKind.CLASSIC: Group.expire,
    GroupKind.CONSUMER: departure.expire,
    GroupKind.SHARE: ShareGroup.expire,
}


def expire(group: AnyGroup, deadline: Deadline) -> Sequence[Effect]:
    """The effects of a passed deadline of the group."""
    return _EXPIRE[group.kind](group, deadline)
