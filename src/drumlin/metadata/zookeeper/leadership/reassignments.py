"""Reassignments: begun and taken back by any broker, completed by the controller.

What becomes of one partition is decided in `reassignment.py`. The controller looks whenever states
have changed, and when it comes into office: so a reassignment outlives it.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

from drumlin.config.topic import log_config
from drumlin.metadata.image import PartitionId, PartitionState
from drumlin.metadata.rules.reassignment import completed, moved
from drumlin.metadata.zookeeper.session.failures import asked
from drumlin.metadata.zookeeper.states.replica_changes import Move, Moves, rewrite_replicas
from drumlin.metadata.zookeeper.states.states import Rewritten, Writer
from drumlin.turns import give_way
from drumlin.wire.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from drumlin.config.topic import LogConfig
    from drumlin.metadata.store.store import Target
    from drumlin.metadata.zookeeper.parts import Parts

_log = logging.getLogger(__name__)


class Reassignments:
    """Of the store of one broker."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._image = parts.image

    async def reassign(
        self, targets: Mapping[PartitionId, Target | None], *, may_change_factor: bool
    ) -> dict[PartitionId, PartitionState | KafkaError]:
        """See `store.MetadataStore.reassign`."""
        outcomes: dict[PartitionId, PartitionState | KafkaError] = {}
        by_topic: dict[UUID, dict[int, Move]] = {}
        for (topic_id, index), target in targets.items():
            configs = self._configs(self._image.topic_name(topic_id) or "")
            move = partial(
                moved,
                min_isr=configs.min_insync_replicas,
                target=target,
                may_change_factor=may_change_factor,
                may_be_unclean=configs.unclean_leader_election_enable,
            )
            by_topic.setdefault(topic_id, {})[index] = move
            await give_way()
        for topic_id, moves in by_topic.items():
            outcomes |= await self._rewrite(topic_id, moves)
        return outcomes

    async def _rewrite(
        self, topic_id: UUID, moves: Mapping[int, Move]
    ) -> dict[PartitionId, PartitionState | KafkaError]:
        ids = [PartitionId(topic_id, index) for index in moves]
        topic = self._image.topics_by_id.get(topic_id)
        if topic is None:
            unknown = KafkaError(ErrorCode.unknown_topic_id)
            return dict.fromkeys(ids, unknown)
        try:
            writer = self._parts.writer()
        except KafkaError as error:
            return dict.fromkeys(ids, error)
        written = await self._write(Moves(topic_id, topic.name, moves), writer)
        for telling in await self._parts.states.take(written.stored):
            await telling
        return {**written.stored, **written.errors}

    async def complete(self, topic_ids: Iterable[UUID]) -> None:
        """As the controller, complete those of which the target is in sync.

        Raises:
            KafkaError: it has to be tried again.
        """
        fence = self._parts.controllership.fence
        if fence is None:
            return
        for topic_id in topic_ids:
            topic = self._image.topics_by_id.get(topic_id)
            if topic is None:
                continue
            moves: dict[int, Move] = {}
            min_isr = self._parts.min_isr(topic.name)
            for each in topic.partitions:
                if each.is_reassigned and completed(each, self._image.brokers, min_isr) is not each:
                    moves[each.index] = partial(completed, min_isr=min_isr)
                await give_way()
            if not moves:
                continue
            written = await self._write(
                Moves(topic_id, topic.name, moves), Writer(fence, fence.epoch)
            )
            await self._parts.states.take(written.stored)
            for (_, index), state in written.stored.items():
                if not state.is_reassigned:
                    _log.info("%s-%d has replicas %s now", topic.name, index, list(state.replicas))
            if written.failure is not None:
                raise written.failure
            for error in written.errors.values():
                self._parts.say(f"topic {topic.name} is not reassigned: {error}")

    async def _write(self, moves: Moves, writer: Writer) -> Rewritten:
        elections = self._parts.elections.begin()

        def noted(move: Move, state: PartitionState, alive: Collection[int]) -> PartitionState:
            after = move(state, alive)
            elections.decided(PartitionId(moves.topic_id, state.index), state, after)
            return after

        by_index = {index: partial(noted, move) for index, move in moves.by_index.items()}
        moves = moves._replace(by_index=by_index)
        try:
            written = await asked(self._parts.commits.run(rewrite_replicas, moves, writer))
        except KafkaError as error:
            partitions = (PartitionId(moves.topic_id, index) for index in by_index)
            written = Rewritten.refused(partitions, error)
        elections.written(written.stored)
        return written

    def _configs(self, topic: str) -> LogConfig:
        return log_config(self._image.topic_configs(topic), self._parts.config.topic_defaults())
