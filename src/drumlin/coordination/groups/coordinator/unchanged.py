"""What a group that is made beside another one needs: to know that the other has not changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from drumlin.coordination.deadlines import DeadlineQueue
from drumlin.coordination.groups.every_kind.any_group import AnyGroup
from drumlin.coordination.groups.every_kind.group_context import GroupContext
from drumlin.coordination.groups.every_kind.group_record import GroupRecord
from drumlin.coordination.groups.shard.shard import GroupShard
from drumlin.coordination.shards.shard_writer import ShardWriter


class Changed(Exception):
    """The group is not any more what the new one was made of."""


class _Changing(AnyGroup, Protocol):
    @property
    def revision(self) -> int:
        """Another one each time that it has changed."""


def same(
    writer: ShardWriter[GroupShard, GroupRecord], shard: GroupShard, group: _Changing
) -> Callable[[], None]:
    """A check that the group is as it is now, and here. It raises `Changed`, or `KafkaError`."""
    group_id, revision = group.group_id, group.revision

    def check() -> None:
        writer.check_leads(shard)
        if group.revision != revision or shard.groups.get(group_id) is not group:
            raise Changed

    return check


def beside(context: GroupContext) -> GroupContext:
    """For a group that must not touch the deadlines of the one that there is."""
    return replace(context, deadlines=DeadlineQueue())
