"""Makes consumer groups of classic ones: at once, or in turns of the loop if it has many members.

For large groups, the new group is built step by step while the classic one serves its members. Then
the records are appended, and the new group replaces the classic one in the step in which they come
to count. If the classic group changed meanwhile, the conversion starts again. If that happens
repeatedly, its members are told to retry later, so that the conversion ends. A member that sends no
heartbeat meanwhile stays: in the new group it has a whole session timeout to send one.

It owns the step in which one group takes the other's place. What a converted group says, and
whether it may be converted, is decided in `consumer/conversion.py`, and never here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

from drumlin.background import Background
from drumlin.coordination.groups.classic.group import Group
from drumlin.coordination.groups.consumer import heartbeats
from drumlin.coordination.groups.consumer.conversion import (
    check_upgrade,
    may_become_classic,
    to_consumer,
)
from drumlin.coordination.groups.consumer.group import ConsumerGroup
from drumlin.coordination.groups.consumer.messages import HeartbeatRequest
from drumlin.coordination.groups.consumer.outcome import Outcome
from drumlin.coordination.groups.coordinator.atomic_writer import AtomicWriter
from drumlin.coordination.groups.coordinator.consumer_work import ConsumerWork
from drumlin.coordination.groups.coordinator.deadline_alarm import DeadlineAlarm
from drumlin.coordination.groups.coordinator.effects import Effects
from drumlin.coordination.groups.coordinator.unchanged import Changed, beside, same
from drumlin.coordination.groups.every_kind.any_group import AnyGroup
from drumlin.coordination.groups.every_kind.group_context import GroupContext
from drumlin.coordination.groups.every_kind.group_record import GroupRecord
from drumlin.coordination.groups.every_kind.kind import GroupKind
from drumlin.coordination.groups.shard.record_registry import type_of
from drumlin.coordination.groups.shard.shard import GroupShard
from drumlin.coordination.shards.pending_answer import Pending
from drumlin.coordination.shards.shard_writer import ShardWriter
from drumlin.coordination.shards.state_batches import Producer
from drumlin.turns import Turns, Work, let_go
from drumlin.wire.error_codes import ErrorCode, KafkaError

#: What becomes a consumer group at once: a few milliseconds' worth of many or of large members.
_MEMBERS_AT_ONCE: Final = 32
_BYTES_AT_ONCE: Final = 32 * 1024


class Upgrades:
    """The groups of the partitions led here that become consumer groups.

    Handed in:
        context: of all groups.
        writer, atomic_writer, effects, alarm, background, turns: the coordinator's.
        consumers: carries out what the consumer group decides.
        downgrade(shard, group): begins to make a classic group of it again.
    """

    def __init__(
        self,
        context: GroupContext,
        writer: ShardWriter[GroupShard, GroupRecord],
        atomic_writer: AtomicWriter,
        effects: Effects,
        alarm: DeadlineAlarm,
        background: Background,
        turns: Turns,
        consumers: ConsumerWork,
        downgrade: Callable[[GroupShard, AnyGroup], None],
    ) -> None:
        self._context, self._writer, self._atomic_writer = context, writer, atomic_writer
        self._effects, self._alarm = effects, alarm
        self._background, self._turns = background, turns
        self._consumers, self._downgrade = consumers, downgrade

    def heartbeat(
        self, shard: GroupShard, group_id: str, request: HeartbeatRequest
    ) -> Pending[Any]:
        """A member that joins makes the group one of this kind, if it is a classic one or none yet.

        Raises:
            KafkaError: what the member is to be told.
        """
        group = shard.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return self._consumers.bring_about(
                shard, group_id, heartbeats.heartbeat(group, request)
            )
        if not request.is_joining or not (group is None or isinstance(group, Group)):
            raise KafkaError(ErrorCode.group_id_not_found, f"there is no consumer group {group_id}")
        records: Sequence[GroupRecord] = ()
        if group is not None and group.membership.members:
            self._check_upgrade(group)
            if _is_large(group):
                return self._begin_upgrade(shard, group, request)
            records = list(to_consumer(group, self._context.topics))
        elif group is not None:
            records = group.tombstones()
        modern = ConsumerGroup(group_id, beside(self._context) if records else self._context)
        for record in records:
            _replay(modern, record)
        outcome = heartbeats.heartbeat(modern, request)
        outcome = outcome._replace(records=[*records, *outcome.records])
        return self._consumers.bring_about(shard, group_id, outcome)

    def _check_upgrade(self, group: Group) -> None:
        config = self._context.rules
        check_upgrade(group, config.group_consumer_migration_policy, config.group_consumer_max_size)

    # -- groups of very many members -----------------------------------------------------------

    def _begin_upgrade(
        self, shard: GroupShard, group: Group, request: HeartbeatRequest
    ) -> asyncio.Future[Any]:
        """The answer to the member that joins. It need not be awaited.

        Raises:
            KafkaError: COORDINATOR_LOAD_IN_PROGRESS, that is under way already.
        """
        if shard.conversions.is_under_way(group.group_id):
            message = f"group {group.group_id} becomes a consumer group"
            raise KafkaError(ErrorCode.coordinator_load_in_progress, message)
        shard.conversions.begin(group.group_id)
        return self._background.answer_with(self._go_on_upgrading(shard, group, request))

    async def _go_on_upgrading(
        self, shard: GroupShard, group: Group, request: HeartbeatRequest
    ) -> Any:
        try:
            producer = await self._atomic_writer.new_producer()
            pending = await self._turns.run(self._upgrade(shard, group, request, producer))
        finally:
            shard.conversions.end(group.group_id)
        self._alarm.set()
        self._look_whether_to_downgrade(shard, group.group_id)
        return await pending

    def _look_whether_to_downgrade(self, shard: GroupShard, group_id: str) -> None:
        """The member that joined may have left, while no other conversion could begin."""
        group = shard.groups.get(group_id)
        if isinstance(group, ConsumerGroup) and may_become_classic(group, ()):
            self._downgrade(shard, group)

    def _upgrade(
        self, shard: GroupShard, group: Group, request: HeartbeatRequest, producer: Producer
    ) -> Work[Pending[Any]]:
        """
        Raises:
            KafkaError: what the member is to be told.
        """
        while shard.groups.get(group.group_id) is group and _is_large(group):
            shard.conversions.begin_try(group.group_id)
            try:
                return (yield from self._try_to_upgrade(shard, group, request, producer))
            except Changed:
                yield
        self._writer.check_leads(shard)
        return self.heartbeat(shard, group.group_id, request)

    def _try_to_upgrade(
        self, shard: GroupShard, group: Group, request: HeartbeatRequest, producer: Producer
    ) -> Work[Pending[Any]]:
        """
        Raises:
            Changed: nothing has happened.
            KafkaError: it was not written, or must not be.
        """
        self._check_upgrade(group)
        group_id, made = group.group_id, list[GroupRecord]()
        modern = ConsumerGroup(group_id, beside(self._context))
        deadlines = modern.context.deadlines
        check = same(self._writer, shard, group)
        packer = self._atomic_writer.packer(shard, producer)
        for record in to_consumer(group, self._context.topics):
            made.append(record)
            _replay(modern, record)
            packer.add(record)
            yield
            check()
        outcome = heartbeats.heartbeat(modern, request)
        for record in outcome.records:
            packer.add(record)
        batches = [batch for batch, _ in packer.batches()]
        confirmation = yield from self._atomic_writer.append_all(shard, batches, producer, check)
        self._take_place(shard, group, modern, outcome)
        answer = self._consumers.follow_up(shard, group_id, outcome, confirmation)
        yield from self._extend_sessions(shard, modern)
        del packer, batches
        yield from let_go(made, group.membership.members)  # else to free it all takes a turn
        del deadlines
        return answer

    def _take_place(
        self, shard: GroupShard, group: Group, modern: ConsumerGroup, outcome: Outcome
    ) -> None:
        """All is in the log. The members that were there have no deadlines yet."""
        modern.context = self._context
        modern.knows_metadata = False  # it has not heard of topics that changed meanwhile
        for key, value in outcome.records:
            modern.replay(key, value)
        shard.groups[group.group_id] = modern
        shard.conversions.let_go(group.group_id)
        self._effects.answer(group.unload(ErrorCode.rebalance_in_progress))

    def _extend_sessions(self, shard: GroupShard, group: ConsumerGroup) -> Work[None]:
        yield
        for member_id in list(group.members):
            member = group.members.get(member_id)
            if member is not None and shard.groups.get(group.group_id) is group:
                group.extend_session(member)
            yield


def _is_large(group: Group) -> bool:
    members = group.membership.members.values()
    if len(members) > _MEMBERS_AT_ONCE:
        return True
    said = (len(said) for each in members for _, said in each.protocols)
    return sum(said) + sum(len(each.assignment) for each in members) > _BYTES_AT_ONCE


def _replay(group: ConsumerGroup, record: GroupRecord) -> None:
    """Unless it is a tombstone of the group that was."""
    key, value = record
    if type_of(key).kind is GroupKind.CONSUMER:
        group.replay(key, value)
