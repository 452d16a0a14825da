"""What the controller does for partitions: gives them leaders that are in sync and alive.

It is done whenever brokers come or go, and whenever a state is seen that is not as it should be.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import UUID

from drumlin.config.topic import log_config
from drumlin.metadata.image import PartitionState, TopicState
from drumlin.metadata.rules.election_news import say_how_elected
from drumlin.metadata.rules.eligible import Election, election
from drumlin.metadata.rules.leadership import settled
from drumlin.metadata.zookeeper.leadership.reassignments import Reassignments
from drumlin.metadata.zookeeper.leadership.rewriting import place_of, rewrite_in_parts
from drumlin.metadata.zookeeper.states.partition_states import is_newer
from drumlin.metadata.zookeeper.states.states import Place, Rewritten, Writer
from drumlin.turns import give_way
from drumlin.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from drumlin.config.topic import LogConfig
    from drumlin.metadata.image import PartitionId
    from drumlin.metadata.zookeeper.parts import Parts
    from drumlin.metadata.zookeeper.znodes.operations import ControllerFence

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Unsettled:
    """Partitions that are not as they should be, and the topics that may have unclean leaders."""

    places: list[Place] = field(default_factory=list)
    unclean: set[str] = field(default_factory=set)
    #: Of each topic that was looked at.
    min_isrs: dict[str, int] = field(default_factory=dict)


class Leaders:
    """Of the store of one broker, which is the controller or not."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._image = parts.image
        self.reassignments = Reassignments(parts)
        #: Partitions that are found not to be as they should be, and are not written yet.
        self.unsettled_count = 0

    async def settle_all(self, since: float | None = None) -> None:
        """Settle all partitions that are not as they should be, if we are the controller.

        since: when it was known that some may not be; None: now.

        Raises:
            KafkaError: it has to be tried again.
        """
        await self.settle(list(self._image.topics_by_id), since)

    async def settle(self, topic_ids: Iterable[UUID], since: float | None = None) -> None:
        """The same, for some topics.

        Raises:
            KafkaError: it has to be tried again.
        """
        fence = self._parts.controllership.fence
        if fence is None:
            return
        unsettled = _Unsettled()
        topic_ids = list(topic_ids)
        for topic_id in topic_ids:
            topic = self._image.topics_by_id.get(topic_id)
            if topic is not None:
                await self._add(unsettled, topic)
        written = await self._write(unsettled, fence, since)
        await self._parts.states.take(written.stored)
        if written.failure is not None:
            raise written.failure
        await self.reassignments.complete(topic_ids)

    async def of_new(
        self, topic_id: UUID, name: str, partitions: tuple[PartitionState, ...]
    ) -> tuple[PartitionState, ...]:
        """Partitions that are not in the image yet, settled if we are the controller.

        Raises:
            KafkaError: it has to be tried again.
        """
        fence = self._parts.controllership.fence
        unsettled = _Unsettled()
        if fence is None:
            return partitions
        await self._add(unsettled, TopicState(name, topic_id, partitions))
        written = await self._write(unsettled, fence)
        if written.failure is not None:
            raise written.failure
        stored = {index: state for (_, index), state in written.stored.items()}
        return tuple(stored.get(each.index, each) for each in partitions)

    async def put_right(self, stored: Mapping[PartitionId, PartitionState]) -> None:
        """Have states that are older than what is known be written over, if that is up to us.

        Raises:
            KafkaError: it has to be tried again.
        """
        is_controller = self._parts.controllership.fence is not None
        node_id, outdated = self._parts.config.node_id, []
        for partition, state in stored.items():
            place = place_of(self._image, partition)
            if (
                place is not None
                and is_newer(place.known, state)
                and (is_controller or place.known.leader == node_id)
            ):
                outdated.append(place)
        if not outdated or self._parts.registration.fence is None:
            return

        def decide(_place: Place, state: PartitionState, _: Mapping[int, int]) -> PartitionState:
            return state

        written = await rewrite_in_parts(self._parts, outdated, decide, self._parts.writer)
        await self._parts.states.take(written.stored)
        if written.failure is not None:
            raise written.failure

    async def _add(self, unsettled: _Unsettled, topic: TopicState) -> None:
        configs = self._configs(topic.name)
        may_be_unclean = configs.unclean_leader_election_enable
        alive, min_isr = self._image.brokers, configs.min_insync_replicas
        unsettled.min_isrs[topic.name] = min_isr
        if may_be_unclean:
            unsettled.unclean.add(topic.name)
        for each in topic.partitions:
            if settled(each, alive, min_isr, may_be_unclean=may_be_unclean) is not each:
                unsettled.places.append(Place(topic.topic_id, topic.name, each))
            await give_way()

    def _configs(self, topic: str) -> LogConfig:
        return log_config(self._image.topic_configs(topic), self._parts.config.topic_defaults())

    async def _write(
        self, unsettled: _Unsettled, fence: ControllerFence, since: float | None = None
    ) -> Rewritten:
        """Settle these partitions, as they are by then."""
        unclean, min_isrs = unsettled.unclean, unsettled.min_isrs
        #: Of those that have got a leader which may lack records, what they were before.
        doubtful: dict[PartitionId, PartitionState] = {}

        def decide(place: Place, state: PartitionState, alive: Mapping[int, int]) -> PartitionState:
            may_be_unclean = place.topic in unclean
            wanted = settled(state, alive, min_isrs[place.topic], may_be_unclean=may_be_unclean)
            if election(state, wanted) not in (None, Election.CLEAN):
                doubtful[place.partition] = state
            return wanted

        count = len(unsettled.places)
        self.unsettled_count += count
        try:
            written = await rewrite_in_parts(
                self._parts, unsettled.places, decide, lambda: Writer(fence, fence.epoch), since
            )
        finally:
            self.unsettled_count -= count
        self._say(count, written, doubtful)
        return written

    def _say(
        self,
        count: int,
        written: Rewritten,
        doubtful: Mapping[PartitionId, PartitionState],
    ) -> None:
        if count:
            _log.info("%d partitions were to be given leaders or in-sync replicas", count)
        for partition, before in doubtful.items():
            after = written.stored.get(partition)
            if after is not None:
                name = self._image.topic_name(partition.topic_id) or str(partition.topic_id)
                say_how_elected(name, before, after)
        for error in written.errors.values():
            if error is not written.failure and error.code is not ErrorCode.not_controller:
                self._parts.say(str(error))
