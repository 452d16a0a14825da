"""Carries out the decisions of consumer groups, at once or in turns.

Regular expressions are resolved in a thread. A target assignment of very many members is made
and encoded in turns of the loop: meanwhile the group keeps the one that it has. Nothing is decided
here; what is found or assigned goes to the group.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, Final

from drumlin.background import Background
from drumlin.coordination.groups.consumer import classic_members
from drumlin.coordination.groups.consumer.assignment import NextTarget, as_it_is_now
from drumlin.coordination.groups.consumer.group import ConsumerGroup
from drumlin.coordination.groups.consumer.member import Partitions
from drumlin.coordination.groups.consumer.member_change import resolved
from drumlin.coordination.groups.consumer.outcome import Outcome
from drumlin.coordination.groups.consumer.regexes import matching_topics
from drumlin.coordination.groups.coordinator.deadline_alarm import DeadlineAlarm
from drumlin.coordination.groups.coordinator.effects import Effects
from drumlin.coordination.groups.every_kind.group_context import Topics
from drumlin.coordination.groups.every_kind.group_record import GroupRecord
from drumlin.coordination.groups.every_kind.messages import JoinAnswer, JoinRequest
from drumlin.coordination.groups.shard.shard import GroupShard
from drumlin.coordination.shards.pending_answer import Pending, Written
from drumlin.coordination.shards.shard_writer import ShardWriter
from drumlin.coordination.shards.state_log import StateLog
from drumlin.coordination.shards.state_topic import Confirmation
from drumlin.turns import Turns, Work
from drumlin.wire.error_codes import ErrorCode, KafkaError

_log: Final = logging.getLogger(__name__)

#: Of what an assignment has been made of.
_FREED_AT_ONCE: Final = 200


class ConsumerWork:
    """The outcomes of requests to the consumer groups of the partitions that are led here.

    Handed in:
        writer, log, effects, alarm, background, turns: the coordinator's.
        topics: what can be subscribed to.
    """

    def __init__(
        self,
        writer: ShardWriter[GroupShard, GroupRecord],
        log: StateLog,
        effects: Effects,
        alarm: DeadlineAlarm,
        background: Background,
        turns: Turns,
        topics: Topics,
    ) -> None:
        self._writer, self._log, self._effects, self._alarm = writer, log, effects, alarm
        self._background, self._turns, self._topics = background, turns, topics

    def bring_about(self, shard: GroupShard, group_id: str, outcome: Outcome) -> Pending[Any]:
        """Write the records of a consumer group's request now; the awaitable gives the answer.

        Raises:
            KafkaError: nothing has happened.
        """
        confirmation = self._writer.write(shard, outcome.records) if outcome.records else None
        return self.follow_up(shard, group_id, outcome, confirmation)

    def follow_up(
        self,
        shard: GroupShard,
        group_id: str,
        outcome: Outcome,
        confirmation: Confirmation | None,
    ) -> Pending[Any]:
        """Do what follows once the records are written, and confirmed when `confirmation` is."""
        answer: Pending[Any] = self._log.written(outcome.answer, confirmation)
        self._effects.go_on(shard, group_id, outcome.then)
        if outcome.regexes or outcome.assigning is not None:
            group = shard.groups.get(group_id)
            assert isinstance(group, ConsumerGroup)
            if outcome.regexes:
                group.is_resolving = True
                self._background.spawn(self._resolve(shard, group, outcome.regexes))
            if outcome.assigning is not None:
                answer = self._when_assigned(shard, group, outcome, answer)
        self._alarm.set()
        return answer

    def join(
        self, shard: GroupShard, group: ConsumerGroup, request: JoinRequest
    ) -> Pending[JoinAnswer]:
        """A classic member joins the group, which goes on as a consumer group.

        Raises:
            KafkaError: nothing has happened.
        """
        outcome = classic_members.join(group, request)
        answer = self.bring_about(shard, group.group_id, outcome)
        has_joined = outcome.answer.error is ErrorCode.none
        if has_joined and shard.groups.get(group.group_id) is group:
            classic_members.joined(group, request, outcome.answer.member_id)
            self._alarm.set()
        return answer

    # -- regular expressions -------------------------------------------------------------------

    async def _resolve(
        self, shard: GroupShard, group: ConsumerGroup, regexes: frozenset[str]
    ) -> None:
        names = list(self._topics.names())
        group.knows_new_topics |= group.regex_subscribers.keys() <= regexes
        try:
            found = await asyncio.to_thread(
                lambda: {regex: matching_topics(regex, names) for regex in regexes}
            )
        finally:
            group.is_resolving = False
        if shard.groups.get(group.group_id) is group:
            try:
                self._writer.write(shard, resolved(group, found))
            except KafkaError as error:
                group.knows_new_topics = False  # a later heartbeat tries again
                _log.warning("group %r: topics found were not written: %s", group.group_id, error)

    # -- target assignments that take long -----------------------------------------------------

    def _when_assigned(
        self, shard: GroupShard, group: ConsumerGroup, outcome: Outcome, first: Pending[Any]
    ) -> asyncio.Future[Any]:
        """The answer to the request that has begun an assignment; `first`, if there comes none.

        It need not be awaited.
        """
        group.is_assigning = True
        return self._background.answer_with(self._go_on_assigning(shard, group, outcome, first))

    async def _go_on_assigning(
        self, shard: GroupShard, group: ConsumerGroup, outcome: Outcome, first: Pending[Any]
    ) -> Any:
        pending = first
        try:
            pending = await self._turns.run(self._assign(shard, group, outcome))
        except KafkaError as refusal:
            _log.warning("group %r keeps its target assignment: %s", group.group_id, refusal)
        finally:
            group.is_assigning = False
        self._alarm.set()
        return await pending

    def _assign(
        self, shard: GroupShard, group: ConsumerGroup, outcome: Outcome
    ) -> Work[Written[Any]]:
        """
        Raises:
            KafkaError: it was not written, or it is for a group that is no more.
        """
        assert outcome.assigning is not None
        assert outcome.follow is not None
        target: NextTarget = yield from outcome.assigning
        epoch_record = target.epoch_record(group.group_id)

        def check_group() -> None:
            if shard.groups.get(group.group_id) is not group:
                raise KafkaError(ErrorCode.group_id_not_found, "it is another group by now")

        def last() -> tuple[Sequence[GroupRecord], dict[str, Partitions]]:
            check_group()
            targets, corrections = as_it_is_now(group, target)
            return [*corrections, epoch_record], targets

        past: list[Any] = []

        def take_over(targets: dict[str, Partitions]) -> None:
            past.extend(group.targets.values())
            group.follow(target.epoch, targets)

        confirmation = yield from self._writer.write_in_turns(
            shard, target.records, last, take_over
        )
        for done_with in (target.records, past):  # all at once, that would take a turn to free
            while done_with:
                del done_with[-_FREED_AT_ONCE:]
                yield
        # Of thousands of partitions, what the member has comes in a turn of its own.
        self._writer.check_leads(shard)
        check_group()
        followed = outcome.follow(group, outcome.answer)
        if followed.records:
            confirmation = self._writer.write(shard, followed.records)
        return self._log.written(followed.answer, confirmation)  # of all that the answer is for
