"""Carries out the decisions of groups of all kinds, with their effects in order.

Records are appended and applied; answers are given, immediately or over several turns; long-running
work is started as a task. This code makes no decisions, and never waits.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

from drumlin.coordination.groups.classic.group import Group
from drumlin.coordination.groups.consumer.group import ConsumerGroup
from drumlin.coordination.groups.coordinator.answer_queue import ANSWERS_PER_TURN, AnswerQueue
from drumlin.coordination.groups.coordinator.deadline_alarm import DeadlineAlarm
from drumlin.coordination.groups.coordinator.long_work import LongWork
from drumlin.coordination.groups.every_kind.any_group import AnyGroup, Decision, Effect, Resolve
from drumlin.coordination.groups.every_kind.group_record import GroupRecord
from drumlin.coordination.groups.every_kind.messages import Answer, Answers, Store
from drumlin.coordination.groups.shard.shard import GroupShard
from drumlin.coordination.groups.share.group import ShareGroup
from drumlin.coordination.shards.log_errors import TooLarge
from drumlin.coordination.shards.pending_answer import Pending
from drumlin.coordination.shards.shard_writer import ShardWriter
from drumlin.coordination.shards.state_log import StateLog
from drumlin.coordination.shards.state_topic import Confirmation
from drumlin.wire.error_codes import KafkaError

_log: Final = logging.getLogger(__name__)


class Effects:
    """Carries out effects for the groups that this broker coordinates.

    Args:
        writer, log, work, answers: those of the coordinator.
        alarm: set after each effect, as groups may have set deadlines.
        store(shard, group, store): stores a classic group's decision.
        convert(shard, group, decision): converts a group of many members.
    """

    def __init__(
        self,
        writer: ShardWriter[GroupShard, GroupRecord],
        log: StateLog,
        work: LongWork,
        answers: AnswerQueue,
        alarm: DeadlineAlarm,
        store: Callable[[GroupShard, Group, Store], None],
        convert: Callable[[GroupShard, ConsumerGroup, Decision], Pending[Any]],
    ) -> None:
        self._writer, self._log, self._work = writer, log, work
        self._answers, self._alarm = answers, alarm
        self._store, self._convert = store, convert

    def carry_out(self, shard: GroupShard, group: AnyGroup, effects: Sequence[Effect]) -> None:
        """Carry out the effects of the group's latest decision."""
        if len(effects) > ANSWERS_PER_TURN:
            answers = [each for each in effects if isinstance(each, Answer)]
            self._answers.give(Answers(len(answers), iter(answers)))
            effects = [each for each in effects if not isinstance(each, Answer)]
        for effect in effects:
            if isinstance(effect, (Answer, Answers)):
                self._answers.give(effect)
            elif isinstance(effect, Decision):
                self._write(shard, group, effect)
            elif isinstance(effect, Resolve):
                assert isinstance(group, ConsumerGroup)
                self._work.resolve(shard, group, effect)
            else:
                assert isinstance(group, Group)
                self._store(shard, group, effect)
        self._alarm.set()

    def _write(self, shard: GroupShard, group: AnyGroup, decision: Decision) -> None:
        try:
            self.bring_about(shard, group.group_id, decision)
        except KafkaError as error:
            _log.warning("records of group %r were not written: %s", group.group_id, error)

    def bring_about(self, shard: GroupShard, group_id: str, decision: Decision) -> Pending[Any]:
        """Write a group's decision now, and carry out its effects; returns the answer.

        Raises:
            KafkaError: nothing was changed.
        """
        if decision.convert is not None:
            converted = shard.groups[group_id]
            assert isinstance(converted, ConsumerGroup)
            return self._convert(shard, converted, decision)
        confirmation = None
        if decision.records:
            try:
                confirmation = self._writer.write_as_one(shard, decision.records)
            except TooLarge:
                if decision.otherwise is None:
                    raise
                return self.bring_about(shard, group_id, decision.otherwise())
        return self.follow_up(shard, group_id, decision, confirmation)

    def follow_up(
        self,
        shard: GroupShard,
        group_id: str,
        decision: Decision,
        confirmation: Confirmation | None,
    ) -> Pending[Any]:
        """Carry out the rest of a decision whose records were appended; the answer awaits
        `confirmation`.
        """
        answer: Pending[Any] = self._log.written(decision.answer, confirmation)
        group = shard.groups.get(group_id)
        if decision.then is not None and group is not None:
            self.carry_out(shard, group, decision.then(group))
        if decision.assign is not None:
            assert isinstance(group, (ConsumerGroup, ShareGroup))
            answer = self._work.assign(shard, group, decision.assign, decision.answer, answer)
        self._alarm.set()
        return answer
