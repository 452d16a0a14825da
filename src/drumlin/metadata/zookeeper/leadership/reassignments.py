"""Reassignments: begun and cancelled by any broker, completed by the controller.

The controller checks reassignments whenever states have changed, and a new controller does so at
once. So a reassignment survives a change of controller.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from uuid import UUID

from drumlin.metadata.image import PartitionId, PartitionState
from drumlin.metadata.rules.decisions import (
    Decision,
    Target,
    reassignment_completed,
    replicas_moved,
)
from drumlin.metadata.store.mutations import find_partitions
from drumlin.metadata.zookeeper.parts import Parts
from drumlin.metadata.zookeeper.session.failures import translated
from drumlin.metadata.zookeeper.states.replica_changes import Moves, rewrite_replicas
from drumlin.metadata.zookeeper.states.states import Place, Rewritten, Writer
from drumlin.wire.error_codes import KafkaError

_log = logging.getLogger(__name__)


class Reassignments:
    """The reassignments that one store's broker begins or completes."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._image = parts.image

    async def reassign(
        self, targets: Mapping[PartitionId, Target | None], *, may_change_factor: bool
    ) -> dict[PartitionId, PartitionState | KafkaError]:
        """See `store.MetadataStore.reassign`."""
        decide = replicas_moved(targets, may_change_factor=may_change_factor)
        outcomes = Rewritten().outcomes(targets)
        for moves in await self._by_topic(targets, decide):
            try:
                written = await self._write(moves, self._parts.writer())
            except KafkaError as error:
                written = Rewritten.refused(moves.partitions, error)
            for telling in await self._parts.states.take(written.stored):
                await telling
            outcomes |= {**written.stored, **written.errors}
        return outcomes

    async def _by_topic(self, partitions: Iterable[PartitionId], decide: Decision) -> list[Moves]:
        by_topic: dict[UUID, Moves] = {}
        for place in await self._parts.places(partitions):
            moves = by_topic.setdefault(
                place.topic_id, Moves(place.topic_id, place.rules, [], decide)
            )
            moves.indexes.append(place.known.index)
        return list(by_topic.values())

    async def complete(self, topic_ids: Iterable[UUID]) -> None:
        """As the controller, complete reassignments whose target replicas are in sync.

        Raises:
            KafkaError: some reassignments are left; call this again.
        """
        fence = self._parts.controllership.fence
        if fence is None:
            return
        moving = await find_partitions(self._image, lambda it: it.is_reassigned, topic_ids)
        moving = [
            each.partition for each in await self._parts.places(moving) if self._is_complete(each)
        ]
        for moves in await self._by_topic(moving, reassignment_completed):
            written = await self._write(moves, Writer(fence, fence.epoch))
            await self._parts.states.take(written.stored)
            topic = moves.rules.topic
            for (_, index), state in written.stored.items():
                if not state.is_reassigned:
                    _log.info("%s-%d has replicas %s now", topic, index, list(state.replicas))
            if written.failure is not None:
                raise written.failure
            for error in written.errors.values():
                self._parts.report(f"topic {topic} is not reassigned: {error}")

    def _is_complete(self, place: Place) -> bool:
        alive = self._image.alive()
        after = reassignment_completed(place.partition, place.known, place.rules, alive)
        return after is not place.known

    async def _write(self, moves: Moves, writer: Writer) -> Rewritten:
        elections = self._parts.elections.begin()
        noted = moves._replace(decide=elections.noting(moves.decide))
        try:
            written = await translated(self._parts.commits.run(rewrite_replicas, noted, writer))
        except KafkaError as error:
            written = Rewritten.refused(moves.partitions, error)
        elections.written(written.stored)
        return written
