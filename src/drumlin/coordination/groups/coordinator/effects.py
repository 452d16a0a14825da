"""Carries out the effects that groups have decided on, in their order.

Answers are given, at once or in turns; records are written and taken over; what takes longer is
begun. Nothing here decides, and nothing waits: what comes later comes as a task.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final

from drumlin.background import Background
from drumlin.coordination.groups.classic.group import Group
from drumlin.coordination.groups.coordinator.answer_queue import ANSWERS_PER_TURN, AnswerQueue
from drumlin.coordination.groups.coordinator.deadline_alarm import DeadlineAlarm
from drumlin.coordination.groups.every_kind.any_group import AnyGroup, Downgrade, Effect, Write
from drumlin.coordination.groups.every_kind.group_record import GroupRecord
from drumlin.coordination.groups.every_kind.messages import Answer, Answers, Store
from drumlin.coordination.groups.shard.shard import GroupShard
from drumlin.coordination.shards.shard_writer import ShardWriter
from drumlin.coordination.shards.state_log import StateLog
from drumlin.coordination.shards.state_topic import Confirmation
from drumlin.wire.error_codes import KafkaError

_log: Final = logging.getLogger(__name__)


class Effects:
    """The effects in the groups of the partitions that are led here.

    Handed in:
        writer, log, background, answers: the coordinator's.
        alarm: is set for deadlines that the groups have set meanwhile.
        store(shard, group, store): stores a classic group's decision.
        downgrade(shard, group): begins to make a classic group of it, unless that is under way.
    """

    def __init__(
        self,
        writer: ShardWriter[GroupShard, GroupRecord],
        log: StateLog,
        background: Background,
        answers: AnswerQueue,
        alarm: DeadlineAlarm,
        store: Callable[[GroupShard, Group, Store], None],
        downgrade: Callable[[GroupShard, AnyGroup], None],
    ) -> None:
        self._writer, self._log, self._background = writer, log, background
        self._answers, self._alarm = answers, alarm
        self._store, self._downgrade = store, downgrade

    def carry_out(self, shard: GroupShard, group: AnyGroup, effects: Sequence[Effect]) -> None:
        """Carry out what the group has decided just now."""
        if len(effects) > ANSWERS_PER_TURN:
            answers = [each for each in effects if isinstance(each, Answer)]
            self._answers.give(Answers(len(answers), iter(answers)))
            effects = [each for each in effects if not isinstance(each, Answer)]
        for effect in effects:
            if isinstance(effect, (Answer, Answers)):
                self._answers.give(effect)
            elif isinstance(effect, Write):
                self._write(shard, group, effect)
            elif isinstance(effect, Downgrade):
                self._downgrade(shard, group)
            else:
                assert isinstance(group, Group)
                self._store(shard, group, effect)
        self._alarm.set()

    def answer(self, effects: Sequence[Effect]) -> None:
        """Of what a group has decided that is no more, only requests need be answered."""
        for effect in effects:
            if isinstance(effect, (Answer, Answers)):
                self._answers.give(effect)

    def go_on(
        self,
        shard: GroupShard,
        group_id: str,
        then: Callable[[AnyGroup], Sequence[Effect]] | None,
    ) -> None:
        """Carry out what `then` says is to be done with the group as it is now."""
        group = shard.groups.get(group_id)
        if then is not None and group is not None:
            self.carry_out(shard, group, then(group))

    def _write(self, shard: GroupShard, group: AnyGroup, write: Write) -> None:
        try:
            confirmation = self._writer.write(shard, write.records) if write.records else None
        except KafkaError as error:
            _log.warning("records of group %r were not written: %s", group.group_id, error)
            _refuse(write.answers, error)
            return
        self.go_on(shard, group.group_id, write.then)
        if confirmation is None:
            self.carry_out(shard, group, write.answers)
        elif write.answers:
            self._background.spawn(self._answer_late(shard, group, write.answers, confirmation))

    async def _answer_late(
        self,
        shard: GroupShard,
        group: AnyGroup,
        answers: Sequence[Answer],
        confirmation: Confirmation,
    ) -> None:
        try:
            await self._log.confirmed(confirmation)
        except KafkaError as error:
            _refuse(answers, error)
        else:
            self.carry_out(shard, group, answers)


def _refuse(answers: Sequence[Answer], error: KafkaError) -> None:
    for answer in answers:
        if not answer.waiter.done():
            answer.waiter.set_exception(error)
