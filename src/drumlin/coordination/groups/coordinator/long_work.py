"""Work of groups that takes longer than a turn of the loop.

Regular expressions are resolved in a thread. A target assignment of very many members is computed
and encoded over several turns of the loop; meanwhile the group keeps its present assignment. The
group gets the results and decides what to do with them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from drumlin.background import Background
from drumlin.coordination.groups.consumer.group import ConsumerGroup
from drumlin.coordination.groups.consumer.member_change import resolved
from drumlin.coordination.groups.consumer.regexes import matching_topics
from drumlin.coordination.groups.coordinator.deadline_alarm import DeadlineAlarm
from drumlin.coordination.groups.every_kind.any_group import Assign, Resolve
from drumlin.coordination.groups.every_kind.group_context import Topics
from drumlin.coordination.groups.every_kind.group_record import GroupRecord
from drumlin.coordination.groups.shard.shard import GroupShard
from drumlin.coordination.groups.share.group import ShareGroup
from drumlin.coordination.shards.pending_answer import Pending, Written
from drumlin.coordination.shards.shard_writer import ShardWriter
from drumlin.coordination.shards.state_log import StateLog
from drumlin.turns import give_way
from drumlin.wire.error_codes import ErrorCode, KafkaError

_log: Final = logging.getLogger(__name__)


class LongWork:
    """Long-running work of the groups that this broker coordinates.

    Args:
        writer, log, alarm, background: those of the coordinator.
        topics: the topics to which groups can subscribe.
    """

    def __init__(
        self,
        writer: ShardWriter[GroupShard, GroupRecord],
        log: StateLog,
        alarm: DeadlineAlarm,
        background: Background,
        topics: Topics,
    ) -> None:
        self._writer, self._log, self._alarm = writer, log, alarm
        self._background, self._topics = background, topics

    # -- regular expressions -------------------------------------------------------------------

    def resolve(self, shard: GroupShard, group: ConsumerGroup, wanted: Resolve) -> None:
        """Find the topics of regular expressions, and pass them to the group later."""
        group.is_resolving = True
        self._background.spawn(self._resolve(shard, group, wanted))

    async def _resolve(self, shard: GroupShard, group: ConsumerGroup, wanted: Resolve) -> None:
        regexes, sees = wanted
        names = list(self._topics.names())
        group.knows_new_topics |= group.regex_subscribers.keys() <= regexes
        try:
            found = await asyncio.to_thread(
                lambda: {regex: matching_topics(regex, names) for regex in regexes}
            )
            if sees is not None:
                found = {regex: await _seen(topics, sees) for regex, topics in found.items()}
        finally:
            group.is_resolving = False
        if shard.groups.get(group.group_id) is group:
            try:
                self._writer.write(shard, resolved(group, found))
            except KafkaError as error:
                group.knows_new_topics = False  # a later heartbeat tries again
                _log.warning("group %r: topics found were not written: %s", group.group_id, error)

    # -- target assignments that take long -----------------------------------------------------

    def assign(
        self,
        shard: GroupShard,
        group: ConsumerGroup | ShareGroup,
        assign: Assign,
        answer: Any,
        first: Pending[Any],
    ) -> asyncio.Future[Any]:
        """Begin an assignment; returns the response to the request that caused it.

        The assignment continues even if the response is not awaited. If the assignment fails, the
        response is `answer`, sent once its records are committed (`first`).
        """
        group.is_assigning = True
        work = self._go_on_assigning(shard, group, assign, answer, first)
        return self._background.answer_with(work)

    async def _go_on_assigning(
        self,
        shard: GroupShard,
        group: ConsumerGroup | ShareGroup,
        assign: Assign,
        answer: Any,
        first: Pending[Any],
    ) -> Any:
        pending = first
        try:
            pending = await self._assign(shard, group, assign, answer)
        except KafkaError as refusal:
            _log.warning("group %r keeps its target assignment: %s", group.group_id, refusal)
        finally:
            group.is_assigning = False
        self._alarm.set()
        return await pending

    async def _assign(
        self, shard: GroupShard, group: ConsumerGroup | ShareGroup, assign: Assign, answer: Any
    ) -> Written[Any]:
        """
        Raises:
            KafkaError: the assignment was not written, or the group was removed.
        """
        target = await assign.make()

        def check_group() -> None:
            if shard.groups.get(group.group_id) is not group:
                raise KafkaError(ErrorCode.group_id_not_found, "the group was replaced meanwhile")

        def last() -> tuple[Sequence[GroupRecord], Any]:
            check_group()
            return assign.complete(group, target)

        def take_over(targets: Any) -> None:
            group.follow(target.epoch, targets)

        confirmation = await self._writer.write_in_turns(shard, target.records, last, take_over)
        await give_way()
        # The member's own assignment may have thousands of partitions, so it gets a separate turn.
        self._writer.check_leads(shard)
        check_group()
        followed = assign.follow(group, answer)
        if followed.records:
            confirmation = self._writer.write(shard, followed.records)
        return self._log.written(followed.answer, confirmation)  # confirmed with its last records


async def _seen(topics: Iterable[str], sees: Callable[[str], bool]) -> frozenset[str]:
    """The topics visible to the member whose request caused the resolution."""
    seen = set()
    for name in topics:
        if sees(name):
            seen.add(name)
        await give_way()
    return frozenset(seen)
