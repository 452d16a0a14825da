"""Turns large consumer groups that have classic members only into classic groups, step by step.

The last member of the consumer protocol has left; the others stay in the consumer group, as
`consumer/classic_members.py` has it. A classic group is made beside it, and takes its place in one
step, as in `upgrades.py`. If that fails, the consumer group stays. Whether it is to be
done is decided in `consumer/conversion.py`, and never here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final, NamedTuple

from drumlin.background import Background
from drumlin.coordination.groups.classic.group import Group
from drumlin.coordination.groups.classic.records import GroupKey, GroupMetadata
from drumlin.coordination.groups.consumer.conversion import (
    Downgraded,
    downgrading,
    may_become_classic,
)
from drumlin.coordination.groups.consumer.group import ConsumerGroup
from drumlin.coordination.groups.coordinator.atomic_writer import AtomicWriter
from drumlin.coordination.groups.coordinator.deadline_alarm import DeadlineAlarm
from drumlin.coordination.groups.coordinator.effects import Effects
from drumlin.coordination.groups.coordinator.unchanged import Changed, beside, same
from drumlin.coordination.groups.every_kind.any_group import AnyGroup
from drumlin.coordination.groups.every_kind.group_context import GroupContext
from drumlin.coordination.groups.every_kind.group_record import GroupRecord
from drumlin.coordination.groups.every_kind.kind import GroupKind
from drumlin.coordination.groups.shard.by_kind import new_group
from drumlin.coordination.groups.shard.shard import GroupShard
from drumlin.coordination.shards.shard_writer import ShardWriter
from drumlin.coordination.shards.state_batches import Producer, RecordPacker
from drumlin.turns import T, Turns, Work, let_go
from drumlin.wire.error_codes import KafkaError

_log: Final = logging.getLogger(__name__)

_REASON: Final = "the last member of the consumer protocol left"
_Batches = list[tuple[bytearray, list[GroupRecord]]]


class _Made(NamedTuple):
    """A classic group that is not in use yet, and its records."""

    group: Group
    metadata: GroupMetadata
    packer: RecordPacker[GroupRecord]
    """Takes all records but the metadata, which comes last."""
    records: list[GroupRecord]
    """The same ones, kept to be let go of in turns."""

    def batches(self) -> _Batches:
        self.packer.add((GroupKey(self.group.group_id), self.metadata))
        return self.packer.batches()


class Downgrades:
    """The groups of the partitions led here that become classic groups again.

    Handed in:
        context: of all groups.
        writer, atomic_writer, effects, alarm, background, turns: the coordinator's.
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
    ) -> None:
        self._context, self._writer, self._atomic_writer = context, writer, atomic_writer
        self._effects, self._alarm = effects, alarm
        self._background, self._turns = background, turns

    def begin(self, shard: GroupShard, group: AnyGroup) -> None:
        """Make a classic group of it in later turns, unless a conversion is under way."""
        under_way = shard.conversions.is_under_way(group.group_id)
        if isinstance(group, ConsumerGroup) and not under_way:
            shard.conversions.begin(group.group_id)
            self._background.spawn(self._downgrade(shard, group))

    async def _downgrade(self, shard: GroupShard, group: ConsumerGroup) -> None:
        group_id, is_done = group.group_id, False
        try:
            producer = await self._atomic_writer.new_producer()
            while not is_done and self._may_downgrade(shard, group):
                shard.conversions.begin_try(group_id)
                try:
                    await self._try_to_downgrade(shard, group, producer)
                    is_done = True
                except Changed:
                    await asyncio.sleep(0)
        except KafkaError as error:
            _log.warning("group %r stays a consumer group: %s", group_id, error)
        finally:
            shard.conversions.end(group_id)
        self._alarm.set()

    def _may_downgrade(self, shard: GroupShard, group: ConsumerGroup) -> bool:
        return shard.groups.get(group.group_id) is group and may_become_classic(group, ())

    async def _try_to_downgrade(
        self, shard: GroupShard, group: ConsumerGroup, producer: Producer
    ) -> None:
        """
        Raises:
            Changed: nothing has happened.
            KafkaError: it was not written, or must not be.
        """
        check = same(self._writer, shard, group)
        packer = self._atomic_writer.packer(shard, producer)
        made = await self._turns.run(self._made_classic(group, packer, check))
        if made is None:
            return
        batches = await asyncio.to_thread(made.batches)
        await self._turns.run(self._take_place_of(shard, group, made, batches, producer, check))
        _log.info("group %r becomes a classic group", group.group_id)
        await self._turns.run(self._clean_up(shard, group, made, batches))

    def _take_place_of(
        self,
        shard: GroupShard,
        group: ConsumerGroup,
        made: _Made,
        batches: _Batches,
        producer: Producer,
        check: Callable[[], None],
    ) -> Work[None]:
        """Append all records, and put the classic group in place as soon as they count."""
        yield from self._atomic_writer.append_all(
            shard, [batch for batch, _ in batches], producer, check
        )
        shard.conversions.let_go(group.group_id)
        shard.groups[group.group_id] = made.group
        spare = made.group.take_place(self._context.deadlines, _REASON)
        self._effects.carry_out(shard, made.group, spare)

    def _made_classic(
        self, group: ConsumerGroup, packer: RecordPacker[GroupRecord], check: Callable[[], None]
    ) -> Work[_Made | None]:
        staying = list(group.members.values())
        downgraded: Downgraded | None = yield from _checked(
            downgrading(group, staying, group.targets), check
        )
        if downgraded is None:
            return None
        records = list[GroupRecord]()
        for key in group.keys():  # noqa: SIM118  they are no dictionary's
            records.append((key, None))
            packer.add(records[-1])
            yield
            check()
        classic = new_group(GroupKind.CLASSIC, group.group_id, beside(self._context))
        assert isinstance(classic, Group)
        yield from _checked(classic.restore_metadata(downgraded.metadata), check)
        membership = classic.membership
        for member_id, protocols in downgraded.protocols.items():
            membership.set_protocols(membership.members[member_id], protocols)
            yield
        return _Made(classic, downgraded.metadata, packer, records)

    def _clean_up(
        self, shard: GroupShard, group: ConsumerGroup, made: _Made, batches: _Batches
    ) -> Work[None]:
        """Clean up after the former group; in one go, it would take more than a turn."""
        if shard.groups.get(group.group_id) is made.group:
            yield from made.group.extend_sessions()
        yield from group.forget_rebalances(list(group.members))
        for _, contained in batches:
            yield from let_go(contained)
        yield from let_go(made.records, group.members, group.targets)


def _checked(work: Work[T], check: Callable[[], None]) -> Work[T]:
    """Run `work` as long as `check` does not raise."""
    try:
        while True:
            next(work)
            yield
            check()
    except StopIteration as done:
        result: T = done.value
        return result
