"""The controller's elections: partitions get leaders that are alive and in sync.

Elections happen when brokers come or go, and when an unsettled state is seen. If one of these
methods raises a `KafkaError`, it has to be called again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from drumlin.metadata.image import PartitionId, PartitionState, TopicState
from drumlin.metadata.rules.decisions import leader_settled, unchanged
from drumlin.metadata.rules.leadership import is_settled
from drumlin.metadata.zookeeper.leadership.reassignments import Reassignments
from drumlin.metadata.zookeeper.leadership.rewriting import rewrite_in_parts
from drumlin.metadata.zookeeper.parts import Parts
from drumlin.metadata.zookeeper.states.partition_states import is_newer
from drumlin.metadata.zookeeper.states.states import Place, Rewritten, Writer
from drumlin.metadata.zookeeper.znodes.operations import ControllerFence
from drumlin.turns import give_way
from drumlin.wire.error_codes import ErrorCode

_log = logging.getLogger(__name__)


class Leaders:
    """The elections by one broker, which may be the controller or not."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._image = parts.image
        self.reassignments = Reassignments(parts)
        #: The number of unsettled partitions whose new state is not written yet.
        self.unsettled_count = 0

    async def settle_all(self, since: float | None = None) -> None:
        """Settle all partitions, if this broker is the controller.

        since: the time when it became known that some may be unsettled; None means now.
        """
        await self.settle(list(self._image.topics_by_id), since)

    async def settle(self, topic_ids: Iterable[UUID], since: float | None = None) -> None:
        """Like `settle_all`, for some topics."""
        fence = self._parts.controllership.fence
        if fence is None:
            return
        unsettled: list[Place] = []
        topic_ids = list(topic_ids)
        for topic_id in topic_ids:
            topic = self._image.topics_by_id.get(topic_id)
            if topic is not None:
                unsettled += await self._unsettled(topic)
        written = await self._write(unsettled, fence, since)
        await self._parts.states.take(written.stored)
        if written.failure is not None:
            raise written.failure
        await self.reassignments.complete(topic_ids)

    async def of_new(
        self, topic_id: UUID, name: str, partitions: tuple[PartitionState, ...]
    ) -> tuple[PartitionState, ...]:
        """Settle partitions that are not in the image yet, if this broker is the controller."""
        fence = self._parts.controllership.fence
        if fence is None:
            return partitions
        unsettled = await self._unsettled(TopicState(name, topic_id, partitions))
        written = await self._write(unsettled, fence)
        if written.failure is not None:
            raise written.failure
        stored = {index: state for (_, index), state in written.stored.items()}
        return tuple(stored.get(each.index, each) for each in partitions)

    async def put_right(self, stored: Mapping[PartitionId, PartitionState]) -> None:
        """Overwrite stored states that are older than known ones, as controller or leader."""
        is_controller = self._parts.controllership.fence is not None
        node_id = self._parts.config.node_id
        outdated = [
            place
            for place in await self._parts.places(stored)
            if is_newer(place.known, stored[place.partition])
            and (is_controller or place.known.leader == node_id)
        ]
        if not outdated or self._parts.registration.fence is None:
            return
        written = await rewrite_in_parts(self._parts, outdated, unchanged, self._parts.writer)
        await self._parts.states.take(written.stored)
        if written.failure is not None:
            raise written.failure

    async def _unsettled(self, topic: TopicState) -> list[Place]:
        """The partitions that need another leader or ISR."""
        alive, rules, found = self._image.alive(), None, []
        for each in topic.partitions:
            if not is_settled(each, alive):
                rules = rules or self._parts.rules(topic.name)
                place = Place(topic.topic_id, rules, each)
                if leader_settled(place.partition, each, rules, alive) is not each:
                    found.append(place)
            await give_way()
        return found

    async def _write(
        self, unsettled: Sequence[Place], fence: ControllerFence, since: float | None = None
    ) -> Rewritten:
        """Settle these partitions; each decision is made again on the stored state."""
        count = len(unsettled)
        self.unsettled_count += count
        try:
            written = await rewrite_in_parts(
                self._parts,
                unsettled,
                leader_settled,
                lambda: Writer(fence, fence.epoch),
                since=since,
            )
        finally:
            self.unsettled_count -= count
        if count:
            _log.info("%d partitions needed another leader or ISR", count)
        for error in written.errors.values():
            if error is not written.failure and error.code is not ErrorCode.not_controller:
                self._parts.report(str(error))
        return written
