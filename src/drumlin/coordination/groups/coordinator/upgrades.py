"""Converts classic groups to consumer groups, when a member of the consumer protocol joins.

The records of a conversion form one batch, so that the group always has exactly one kind in the
log. A batch has at most 1 MiB by default. If the conversion needs more, the joining member is
refused.

`consumer/conversion.py` decides whether a group may be converted, and creates the new group.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from drumlin.coordination.deadlines import DeadlineQueue
from drumlin.coordination.groups.classic.group import Group
from drumlin.coordination.groups.consumer import heartbeats
from drumlin.coordination.groups.consumer.conversion import (
    check_upgrade,
    stays_classic,
    to_consumer,
)
from drumlin.coordination.groups.consumer.group import ConsumerGroup
from drumlin.coordination.groups.consumer.messages import HeartbeatRequest
from drumlin.coordination.groups.coordinator.effects import Effects
from drumlin.coordination.groups.every_kind.any_group import Decision
from drumlin.coordination.groups.every_kind.group_context import GroupContext
from drumlin.coordination.groups.every_kind.group_record import GroupRecord
from drumlin.coordination.groups.every_kind.kind import GroupKind
from drumlin.coordination.groups.shard.record_registry import type_of
from drumlin.coordination.groups.shard.shard import GroupShard
from drumlin.coordination.shards.log_errors import TooLarge
from drumlin.coordination.shards.pending_answer import Pending
from drumlin.coordination.shards.shard_writer import ShardWriter
from drumlin.wire.error_codes import ErrorCode, KafkaError

_log: Final = logging.getLogger(__name__)


class Upgrades:
    """Converts groups that this broker coordinates.

    Args:
        context: the context of all groups.
        writer, effects: those of the coordinator.
    """

    def __init__(
        self,
        context: GroupContext,
        writer: ShardWriter[GroupShard, GroupRecord],
        effects: Effects,
    ) -> None:
        self._context, self._writer, self._effects = context, writer, effects

    def heartbeat(
        self, shard: GroupShard, group_id: str, request: HeartbeatRequest
    ) -> Pending[Any]:
        """Handle a heartbeat; a joining member may create a group, or convert a classic one.

        Raises:
            KafkaError: the error for the member.
        """
        group = shard.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return self._effects.bring_about(shard, group_id, heartbeats.heartbeat(group, request))
        if not request.is_joining or not (group is None or isinstance(group, Group)):
            raise KafkaError(ErrorCode.group_id_not_found, f"there is no consumer group {group_id}")
        if group is not None and group.membership.members:
            return self._upgrade(shard, group, request)
        # An empty classic group may have deadlines, which the new group must not change.
        upgraded = ConsumerGroup(group_id, self._apart if group else self._context)
        decision = heartbeats.heartbeat(upgraded, request)
        if group is not None:
            decision = decision._replace(records=[*group.tombstones(), *decision.records])
        return self._effects.bring_about(shard, group_id, decision)

    def _upgrade(self, shard: GroupShard, group: Group, request: HeartbeatRequest) -> Pending[Any]:
        """
        Raises:
            KafkaError: the error for the member.
        """
        rules = self._context.rules
        check_upgrade(group, rules.group_consumer_migration_policy, rules.group_consumer_max_size)
        upgraded, decision = ConsumerGroup(group.group_id, self._apart), Decision(())

        def records() -> Iterator[GroupRecord]:
            nonlocal decision
            for key, value in to_consumer(group, self._context.topics):
                if (
                    type_of(key).kind is GroupKind.CONSUMER
                ):  # the others are the classic group's tombstones
                    upgraded.replay(key, value)
                yield key, value
            decision = heartbeats.heartbeat(upgraded, request)
            yield from decision.records

        try:
            confirmation = self._writer.write_as_one(shard, records())
        except TooLarge:
            stays_classic(group)
            raise
        _log.info("group %r has become a consumer group", group.group_id)
        return self._effects.follow_up(shard, group.group_id, decision, confirmation)

    @property
    def _apart(self) -> GroupContext:
        """A context with separate deadlines, for a new group of the same name as the old one."""
        return replace(self._context, deadlines=DeadlineQueue())
