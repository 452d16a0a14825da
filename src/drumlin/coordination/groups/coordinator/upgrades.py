"""Converts classic groups to consumer groups, when a member of the consumer protocol joins, and
large ones back, when the last such member leaves.

The records of a conversion form one batch, so that the group always has exactly one kind in the
log. A batch has at most 1 MiB by default. If the conversion needs more, the joining member is
refused.

If a group has many members, its records and the new group are made over several turns of the loop.
Requests to the group wait until the conversion is over, so the group rarely changes meanwhile; if
it does, the work is done again.

`consumer/conversion.py` decides whether a group may be converted, and creates the new group.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from drumlin.background import Background, look_at
from drumlin.coordination.deadlines import DeadlineQueue
from drumlin.coordination.groups.classic.group import Group
from drumlin.coordination.groups.consumer import heartbeats
from drumlin.coordination.groups.consumer.conversion import (
    MEMBERS_AT_ONCE,
    check_upgrade,
    stays_classic,
    to_consumer,
)
from drumlin.coordination.groups.consumer.group import ConsumerGroup
from drumlin.coordination.groups.consumer.messages import HeartbeatRequest
from drumlin.coordination.groups.coordinator.answer_queue import AnswerQueue
from drumlin.coordination.groups.coordinator.deadline_alarm import DeadlineAlarm
from drumlin.coordination.groups.coordinator.effects import Effects
from drumlin.coordination.groups.every_kind.any_group import AnyGroup, Convert, Decision
from drumlin.coordination.groups.every_kind.group_context import GroupContext
from drumlin.coordination.groups.every_kind.group_record import GroupRecord
from drumlin.coordination.groups.every_kind.kind import GroupKind
from drumlin.coordination.groups.every_kind.states import DeadlineKind
from drumlin.coordination.groups.shard.by_kind import new_group
from drumlin.coordination.groups.shard.record_registry import type_of
from drumlin.coordination.groups.shard.shard import GroupShard
from drumlin.coordination.shards.log_errors import TooLarge
from drumlin.coordination.shards.pending_answer import Pending
from drumlin.coordination.shards.shard_writer import ShardWriter
from drumlin.coordination.shards.state_batches import RecordPacker
from drumlin.turns import checked, forget, give_way
from drumlin.wire.error_codes import ErrorCode, KafkaError

_log: Final = logging.getLogger(__name__)

T = TypeVar("T")

#: The number of attempts over several turns; then a group of any size is converted in one turn.
_ATTEMPTS: Final = 3


class _Changed(Exception):
    """The group changed while its records were made."""


class _Impossible(Exception):
    """The members have no protocol in common, or its metadata cannot be decoded."""


class _Made(NamedTuple):
    """A consumer group in place of a classic one, not written yet.

    group: the new group, before the records of `decision` are applied.
    decision: the decision on the joining member's request.
    packer: the records of the conversion and of `decision`.
    """

    group: ConsumerGroup
    decision: Decision
    packer: RecordPacker[GroupRecord]


class Upgrades:
    """Converts groups that this broker coordinates.

    Args:
        context: the context of all groups.
        writer, effects, answers, alarm, background: those of the coordinator.
    """

    def __init__(
        self,
        context: GroupContext,
        writer: ShardWriter[GroupShard, GroupRecord],
        effects: Effects,
        answers: AnswerQueue,
        alarm: DeadlineAlarm,
        background: Background,
    ) -> None:
        self._context, self._writer, self._effects = context, writer, effects
        self._answers, self._alarm, self._background = answers, alarm, background
        self._under_way: dict[str, asyncio.Future[None]] = {}

    def is_under_way(self, group_id: str) -> bool:
        """Whether a conversion of the group over several turns is in progress."""
        return group_id in self._under_way

    def afterwards(self, group_id: str, ask: Callable[[], Pending[T]]) -> Pending[T]:
        """The answer of `ask`, which is called when the conversion of the group is over."""
        return self._background.answer_with(self._ask_afterwards(group_id, ask))

    async def _ask_afterwards(self, group_id: str, ask: Callable[[], Pending[T]]) -> T:
        while (over := self._under_way.get(group_id)) is not None:
            await asyncio.wait([over])
            await give_way()  # there may be thousands of such requests
        return await ask()

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
        if len(group.membership.members) <= MEMBERS_AT_ONCE:
            return self._upgrade_at_once(shard, group, request)
        over = asyncio.get_running_loop().create_future()
        self._under_way[group.group_id] = over
        return self._background.answer_with(self._upgrade_in_turns(shard, group, request, over))

    async def _upgrade_in_turns(
        self, shard: GroupShard, group: Group, request: HeartbeatRequest, over: asyncio.Future[None]
    ) -> Any:
        try:
            answer = await self._upgraded(shard, group, request)
        except TooLarge:
            stays_classic(group)
            raise
        finally:
            del self._under_way[group.group_id]
            over.set_result(None)
        return await answer

    async def _upgraded(
        self, shard: GroupShard, group: Group, request: HeartbeatRequest
    ) -> Pending[Any]:
        """
        Raises:
            KafkaError: the error for the member.
        """
        for _ in range(_ATTEMPTS):
            before, mark = _content(group), _mark(group)
            try:
                made = await checked(
                    self._made(shard, group, request),
                    partial(_check_unchanged, partial(_mark, group), mark),
                )
            except _Changed:
                continue
            self._check_is_there(shard, group)
            if _content(group) == before and _mark(group) == mark:
                return self._replace(shard, group, made)
        self._check_is_there(shard, group)
        return self._upgrade_at_once(shard, group, request)

    def _check_is_there(self, shard: GroupShard, group: AnyGroup) -> None:
        """
        Raises:
            KafkaError: the group is no longer coordinated here, or was replaced.
        """
        self._writer.check_leads(shard)
        if shard.groups.get(group.group_id) is not group:
            raise KafkaError(ErrorCode.group_id_not_found, "the group was replaced meanwhile")

    async def _made(self, shard: GroupShard, group: Group, request: HeartbeatRequest) -> _Made:
        """
        Raises:
            TooLarge: the records do not fit into one batch.
            KafkaError: the error for the member.
        """
        upgraded, packer = ConsumerGroup(group.group_id, self._apart), self._writer.packer(shard)
        for key, value in to_consumer(group, self._context.topics):
            if type_of(key).kind is GroupKind.CONSUMER:
                upgraded.replay(key, value)
            _add(packer, (key, value))
            await give_way()
        decision = heartbeats.heartbeat(upgraded, request)
        for record in decision.records:
            _add(packer, record)
        return _Made(upgraded, decision, packer)

    def _replace(self, shard: GroupShard, group: Group, made: _Made) -> Pending[Any]:
        """
        Raises:
            KafkaError: nothing was written.
        """
        upgraded, decision, packer = made

        def take_over(_: object, __: int) -> None:
            upgraded.context = self._context
            for key, value in decision.records:
                upgraded.replay(key, value)
            upgraded.knows_metadata = False  # topics may have changed since the first turn
            self._put(shard, group, upgraded)

        confirmation = self._writer.write_batches_at_once(shard, packer.batches(), take_over)
        _log.info("group %r has become a consumer group", group.group_id)
        self._background.spawn(self._settle(group, upgraded))
        return self._effects.follow_up(shard, group.group_id, decision, confirmation)

    def _put(self, shard: GroupShard, former: AnyGroup, converted: AnyGroup) -> None:
        for each in shard.replace(former, converted):
            self._answers.give(each)

    async def _settle(self, former: Group, upgraded: ConsumerGroup) -> None:
        """Begin the sessions of all members, and free the former group."""
        for member_id in list(upgraded.members):
            member = upgraded.members.get(member_id)
            if member is not None:
                upgraded.extend_session(member)
            await give_way()
        self._alarm.set()
        await forget(await former.dissolve())

    # -- back to the classic protocol ------------------------------------------------------------

    def downgrade(
        self, shard: GroupShard, group: ConsumerGroup, decision: Decision
    ) -> Pending[Any]:
        """Carry out a decision to convert a consumer group; see `Convert`."""
        over = asyncio.get_running_loop().create_future()
        self._under_way[group.group_id] = over
        work = self._downgrade_in_turns(shard, group, decision, over)
        answer = self._background.answer_with(work)
        answer.add_done_callback(look_at)  # after a deadline, no request awaits it
        return answer

    async def _downgrade_in_turns(
        self,
        shard: GroupShard,
        group: ConsumerGroup,
        decision: Decision,
        over: asyncio.Future[None],
    ) -> Any:
        try:
            answer = await self._downgraded(shard, group, decision)
        finally:
            del self._under_way[group.group_id]
            over.set_result(None)
        return await answer

    async def _downgraded(
        self, shard: GroupShard, group: ConsumerGroup, decision: Decision
    ) -> Pending[Any]:
        """
        Raises:
            KafkaError: nothing was changed.
        """
        for more in reversed(range(_ATTEMPTS)):
            convert, mark = decision.convert, group.revision
            if convert is None:
                break
            try:
                classic, packer = await checked(
                    self._made_classic(shard, group, convert),
                    partial(_check_unchanged, lambda: group.revision, mark),
                )
            except TooLarge:
                self._check_is_there(shard, group)
                assert decision.otherwise is not None
                decision = decision.otherwise()
            except (_Changed, _Impossible) as why:
                self._check_is_there(shard, group)
                may_go_on = more > 0 and isinstance(why, _Changed)
                decision = convert.decide(in_turns=may_go_on)
            else:
                self._check_is_there(shard, group)
                answer = self._put_classic(shard, group, decision, classic, packer)
                for member_id in group.members.keys() - classic.membership.members.keys():
                    group.cancel(DeadlineKind.SESSION, member_id)
                await forget(await group.dissolve())
                return answer
        return self._effects.bring_about(shard, group.group_id, decision)

    def _put_classic(
        self,
        shard: GroupShard,
        group: ConsumerGroup,
        decision: Decision,
        classic: Group,
        packer: RecordPacker[GroupRecord],
    ) -> Pending[Any]:
        """
        Raises:
            KafkaError: nothing was written.
        """
        confirmation = self._writer.write_batches_at_once(
            shard, packer.batches(), lambda *_: self._put(shard, group, classic)
        )
        _log.info("group %r has become a classic group", group.group_id)
        reason = None if decision.convert is None else decision.convert.reason
        then = None if reason is None else lambda _: classic.rebalance(reason)
        follow = Decision((), decision.answer, then)
        return self._effects.follow_up(shard, group.group_id, follow, confirmation)

    async def _made_classic(
        self, shard: GroupShard, group: ConsumerGroup, convert: Convert
    ) -> tuple[Group, RecordPacker[GroupRecord]]:
        """The classic group, which is not yet in the log, and its records.

        Raises:
            _Impossible: there is no such classic group.
            TooLarge: the records do not fit into one batch.
        """
        made = await convert.make()
        if made is None:
            raise _Impossible
        record, protocols = made
        classic = new_group(GroupKind.CLASSIC, group.group_id, self._context)
        assert isinstance(classic, Group)
        await classic.restore([record])
        await classic.take_over_protocols(protocols)
        packer = self._writer.packer(shard)
        for tombstone in group.tombstones():
            _add(packer, tombstone)
            await give_way()
        await asyncio.to_thread(_add, packer, record)  # the record has all members
        return classic, packer

    # -- at once ---------------------------------------------------------------------------------

    def _upgrade_at_once(
        self, shard: GroupShard, group: Group, request: HeartbeatRequest
    ) -> Pending[Any]:
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


def _add(packer: RecordPacker[GroupRecord], record: GroupRecord) -> None:
    packer.add(record)
    if packer.is_several:
        raise TooLarge


def _content(group: Group) -> list[tuple[object, ...]]:
    """The members' data, as a conversion writes it into records."""
    return [
        (
            each.member_id,
            each.group_instance_id,
            each.client_id,
            each.client_host,
            each.rebalance_timeout_ms,
            each.session_timeout_ms,
            each.protocols,
            each.assignment,
        )
        for each in group.membership.members.values()
    ]


def _mark(group: Group) -> tuple[object, ...]:
    """A value that is cheap to compute, and changes with nearly every change of the group."""
    return group.generation_id, group.state, group.protocol_name, len(group.membership.members)


def _check_unchanged(mark: Callable[[], object], before: object) -> None:
    """
    Raises:
        _Changed: the mark has changed.
    """
    if mark() != before:
        raise _Changed
