"""Changes of partition states on one machine, one after the other, decided on the stored state.

Partition epochs are counted in memory, from 0 at each start. That is enough, as no request with an
earlier epoch outlives the process that counted it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from uuid import UUID

from drumlin.config.topic import LogConfig
from drumlin.metadata.embedded import database
from drumlin.metadata.embedded.sqlite import SqliteMetadata
from drumlin.metadata.image import PartitionId, PartitionState
from drumlin.metadata.rules.decisions import Decision, TopicRules
from drumlin.metadata.rules.election_counts import ElectionCounts
from drumlin.metadata.rules.election_log import BY_CONFIG
from drumlin.metadata.store.changes import PartitionsChanged
from drumlin.metadata.store.mutations import find_partitions, uncancelled
from drumlin.turns import give_way
from drumlin.wire.error_codes import ErrorCode, KafkaError

Outcomes = dict[PartitionId, PartitionState | KafkaError]
#: Reports a change to all but the given broker, in the turn in which the image shows it.
Publish = Callable[[PartitionsChanged, int | None], None]
#: Partitions to decide on, or a condition on their states.
Wanted = Collection[PartitionId] | Callable[[PartitionState], bool]


class PartitionStates:
    """See the module."""

    def __init__(
        self, store: SqliteMetadata, configs_of: Callable[[str], LogConfig], publish: Publish
    ) -> None:
        self._store = store
        self._image = store.image
        self._configs_of = configs_of
        self._publish = publish
        self._turn = asyncio.Lock()
        self.elections = ElectionCounts()
        #: The number of changes that wait to be made.
        self.waiting = 0

    @uncancelled
    async def rewrite(
        self,
        decide: Decision,
        wanted: Wanted,
        *,
        topics: Iterable[UUID] | None = None,
        quiet_for: int | None = None,
        since: float | None = None,
        why: str = BY_CONFIG,
    ) -> Outcomes:
        """Change partitions.

        topics: the topics to search if `wanted` is a condition; None means all.
        quiet_for: a broker that is not notified of the changes.
        since, why: see `ElectionCounts.begin`.

        Returns:
            The new state of each partition, or the error that prevented the change:
            UNKNOWN_TOPIC_ID, an error of `decide`, or KAFKA_STORAGE_ERROR for all partitions to be
            changed.
        """
        elections = self.elections.begin(since, why)
        self.waiting += 1
        try:
            async with self._turn:
                if not isinstance(wanted, Collection):
                    wanted = await find_partitions(self._image, wanted, topics)
                changed: dict[PartitionId, PartitionState] = {}
                outcomes = await self._decide(elections.noting(decide), wanted, changed)
                if not changed:
                    return outcomes
                statements = (database.put_state(each[0], state) for each, state in changed.items())
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
        wanted: Iterable[PartitionId],
        changed: dict[PartitionId, PartitionState],
    ) -> Outcomes:
        outcomes: Outcomes = {}
        rules: dict[UUID, TopicRules] = {}
        for partition in wanted:
            topic_id, index = partition
            topic = self._image.topics_by_id.get(topic_id)
            state = None if topic is None else topic.partition(index)
            if topic is None or state is None:
                outcomes[partition] = KafkaError(ErrorCode.unknown_topic_id)
                continue
            if topic_id not in rules:
                rules[topic_id] = TopicRules.of(topic.name, self._configs_of(topic.name))
            try:
                after = decide(partition, state, rules[topic_id], self._image.alive())
            except KafkaError as error:
                outcomes[partition] = error
            else:
                if after != state:
                    after = replace(after, partition_epoch=state.partition_epoch + 1)
                    changed[partition] = after
                outcomes[partition] = after
            await give_way()
        return outcomes

    async def _show(
        self, changed: Mapping[PartitionId, PartitionState], quiet_for: int | None
    ) -> None:
        by_topic: dict[UUID, dict[int, PartitionState]] = {}
        for (topic_id, index), state in changed.items():
            by_topic.setdefault(topic_id, {})[index] = state
        for topic_id, states in by_topic.items():
            topic = self._image.topics_by_id.get(
                topic_id
            )  # the topic may have changed or been deleted meanwhile
            if topic is not None:
                topic = topic.with_states(states)
                self._image.put_topic(topic)
                self._publish(PartitionsChanged(topic, tuple(states.values())), quiet_for)
            await give_way()
