"""The states of all partitions, for the process that owns the store: one change after the other.

A change is decided on what is stored. The partition epoch is counted in memory: what has to do with
an earlier one is gone with the process that gave it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import UUID

from drumlin.metadata.embedded import database
from drumlin.metadata.image import PartitionId, PartitionState, TopicState
from drumlin.metadata.rules.election_counts import ElectionCounts
from drumlin.metadata.store.mutations import uncancelled
from drumlin.turns import give_way
from drumlin.wire.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from drumlin.metadata.embedded.sqlite import SqliteMetadata
    from drumlin.metadata.rules.election_counts import Elections

#: Decides the new state of a partition: the same object leaves it as it is. It may refuse.
Decision = Callable[[TopicState, PartitionState], PartitionState]
#: Is told what has changed, in the turn in which the image shows it.
Publish = Callable[[UUID, tuple[PartitionState, ...], int | None], None]


class PartitionStates:
    """See the module."""

    def __init__(self, store: SqliteMetadata, publish: Publish) -> None:
        self._store = store
        self._image = store.image
        self._publish = publish
        self._turn = asyncio.Lock()
        self.elections = ElectionCounts()
        #: Changes that are asked for, and not made yet.
        self.waiting = 0

    @uncancelled
    async def rewrite(
        self,
        decide: Decision,
        wanted: Collection[PartitionId] | None = None,
        quiet_for: int | None = None,
        since: float | None = None,
    ) -> dict[PartitionId, PartitionState | KafkaError]:
        """Change these partitions, or all of them.

        quiet_for: a broker that need not be told.
        since: when it was known that partitions need another leader; None: now.

        Returns:
            What there is of the wanted ones: their new states, or why not. UNKNOWN_TOPIC_ID, what
            `decide` raises; KAFKA_STORAGE_ERROR for all that were to be changed.
        """
        elections = self.elections.begin(since)
        self.waiting += 1
        try:
            async with self._turn:
                changed: dict[PartitionId, PartitionState] = {}
                outcomes = await self._decide(decide, wanted, changed, elections)
                if not changed:
                    return outcomes
                statements = [
                    database.put_state(each.topic_id, state) for each, state in changed.items()
                ]
                try:
                    await self._store.commit(statements)
                except KafkaError as error:
                    return {**outcomes, **dict.fromkeys(changed, error)}
                elections.written(changed)
                await self._show(changed, quiet_for)
                return outcomes
        finally:
            self.waiting -= 1

    async def _decide(
        self,
        decide: Decision,
        wanted: Collection[PartitionId] | None,
        changed: dict[PartitionId, PartitionState],
        elections: Elections,
    ) -> dict[PartitionId, PartitionState | KafkaError]:
        outcomes: dict[PartitionId, PartitionState | KafkaError] = {}

        def look(topic: TopicState, state: PartitionState) -> None:
            partition = PartitionId(topic.topic_id, state.index)
            try:
                after = decide(topic, state)
            except KafkaError as error:
                outcomes[partition] = error
                return
            if after != state:
                after = replace(after, partition_epoch=state.partition_epoch + 1)
                changed[partition] = after
                elections.decided(partition, state, after)
            if wanted is not None:
                outcomes[partition] = after

        if wanted is None:
            for topic in list(self._image.topics.values()):
                for state in topic.partitions:
                    look(topic, state)
                await give_way()
            return outcomes
        for partition in wanted:
            known = self._image.topics_by_id.get(partition.topic_id)
            found = None if known is None else known.partition(partition.partition)
            if known is None or found is None:
                outcomes[partition] = KafkaError(ErrorCode.unknown_topic_id)
            else:
                look(known, found)
            await give_way()
        return outcomes

    async def _show(
        self, changed: Mapping[PartitionId, PartitionState], quiet_for: int | None
    ) -> None:
        by_topic: dict[UUID, dict[int, PartitionState]] = {}
        for (topic_id, index), state in changed.items():
            by_topic.setdefault(topic_id, {})[index] = state
        for topic_id, states in by_topic.items():
            topic = self._image.topics_by_id.get(topic_id)  # it may be wider now, or gone
            if topic is not None:
                self._image.put_topic(topic.with_states(states))
                self._publish(topic_id, tuple(states.values()), quiet_for)
            await give_way()
