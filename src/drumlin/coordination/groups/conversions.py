"""Which groups are being made groups of another kind, step by step.

The new group is made beside the old one, which serves its members meanwhile; if that changes, all
starts again. If this happens again and again, the old group is held: its members are told to retry
later, so that it ends. This owns which groups these are. How they are converted is not known here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final, Protocol

from drumlin.coordination.deadlines import DeadlineQueue
from drumlin.coordination.groups.any_group import AnyGroup
from drumlin.coordination.groups.group_context import GroupContext
from drumlin.coordination.groups.group_record import GroupRecord
from drumlin.coordination.groups.shard import GroupShard
from drumlin.coordination.shard_writer import ShardWriter
from drumlin.wire.errors import ErrorCode, KafkaError

#: How often a group is given the chance to stay as it is by itself.
_FREE_TRIES: Final = 2


class Changed(Exception):
    """The group is not any more what the new one was made of."""


class Conversions:
    """The groups that become groups of another kind; their deadlines wait."""

    def __init__(self) -> None:
        self._tries = dict[str, int]()
        self._held = set[str]()

    def begin(self, group_id: str) -> None:
        """A conversion begins; there is none of this group under way."""
        self._tries[group_id] = 0

    def begin_try(self, group_id: str) -> None:
        """All begins (anew); after some tries the group must stay as it is, whatever members want.

        It is so until `let_go` or `end`.
        """
        if self._tries[group_id] == _FREE_TRIES:
            self._held.add(group_id)
        self._tries[group_id] += 1

    def let_go(self, group_id: str) -> None:
        """The new group is there: it may change."""
        self._held.discard(group_id)

    def end(self, group_id: str) -> None:
        """The conversion is done, or given up."""
        self._tries.pop(group_id, None)
        self._held.discard(group_id)

    def is_under_way(self, group_id: str) -> bool:
        return group_id in self._tries

    def check_not_held(
        self, group_id: str, refusal: ErrorCode = ErrorCode.coordinator_load_in_progress
    ) -> None:
        """
        Raises:
            KafkaError: `refusal`, the group must stay as it is just now.
        """
        if group_id in self._held:
            raise KafkaError(refusal, f"group {group_id} becomes one of another kind")


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
