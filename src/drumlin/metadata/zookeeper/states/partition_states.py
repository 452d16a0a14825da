"""Partition states in the image: newer states replace older ones, and are reported.

States that were read or written are passed to `take`, in any order. The newer state has the higher
leader epoch or, if these are equal, the higher partition epoch.
"""

from __future__ import annotations

from collections.abc import Awaitable, Container, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from uuid import UUID

from drumlin.metadata.image import ClusterImage, PartitionId, PartitionState, TopicState
from drumlin.metadata.rules.leadership import NO_EPOCH
from drumlin.metadata.store.changes import PartitionsChanged
from drumlin.metadata.store.mutations import Listeners
from drumlin.metadata.zookeeper.znodes.eligible_json import eligible_of
from drumlin.metadata.zookeeper.znodes.own_layout import ChangedState
from drumlin.turns import give_way

#: The states of one topic's partitions.
_States = Mapping[int, ChangedState | PartitionState]


class PartitionStates:
    """The partition states of one image."""

    def __init__(self, image: ClusterImage, listeners: Listeners) -> None:
        self._image = image
        self._listeners = listeners
        #: States of partitions that will be added to the image.
        self._early: dict[UUID, dict[int, ChangedState | PartitionState]] = {}

    async def take(
        self, found: Mapping[PartitionId, ChangedState | PartitionState], *, is_told: bool = True
    ) -> list[Awaitable[None]]:
        """Apply newer states to the image, and report them to the listeners.

        is_told: whether to report a change of the epoch alone.

        Returns:
            An awaitable that is done when listeners have handled the changes.
        """
        by_topic: dict[UUID, dict[int, ChangedState | PartitionState]] = {}
        for (topic_id, index), state in found.items():
            by_topic.setdefault(topic_id, {})[index] = state
            await give_way()
        telling: list[Awaitable[None]] = []
        for topic_id, states in by_topic.items():
            changed = self._take(topic_id, states, is_told=is_told)
            if changed is not None:
                telling.append(self._listeners.tell(changed))
            await give_way()
        return telling

    def _take(self, topic_id: UUID, states: _States, *, is_told: bool) -> PartitionsChanged | None:
        early = self._early.get(topic_id)
        topic = self._image.topics_by_id.get(topic_id)
        if early is not None:
            known = 0 if topic is None else len(topic.partitions)
            for index, state in states.items():
                if index >= known and (index not in early or is_newer(state, early[index])):
                    early[index] = state
        if topic is None:
            return None
        changed = with_newer(topic, states)
        if changed is topic:
            return None
        self._image.put_topic(changed)
        partitions = tuple(
            new
            for old, new in zip(topic.partitions, changed.partitions, strict=True)
            if new is not old and (is_told or (new.leader, new.isr) != (old.leader, old.isr))
        )
        return PartitionsChanged(changed, partitions) if partitions else None

    @contextmanager
    def expecting(self, topic_id: UUID) -> Iterator[_States]:
        """Collect states of new partitions of a topic until the image has these partitions."""
        early = self._early[topic_id] = {}
        try:
            yield early
        finally:
            del self._early[topic_id]


def unwritten(topic: TopicState, indexes: Container[int]) -> TopicState:
    """The topic, changed so that any stored state of these partitions counts as newer."""
    partitions = tuple(
        replace(each, partition_epoch=NO_EPOCH) if each.index in indexes else each
        for each in topic.partitions
    )
    return replace(topic, partitions=partitions)


def with_newer(topic: TopicState, states: _States) -> TopicState:
    """The topic with the newer ones of these states; the same object if none is newer."""
    newer = {
        index: state
        for index, state in states.items()
        if index < len(topic.partitions) and is_newer(state, topic.partitions[index])
    }
    if not newer:
        return topic
    partitions = tuple(
        _with(each, newer[each.index]) if each.index in newer else each for each in topic.partitions
    )
    return replace(topic, partitions=partitions)


def is_newer(state: ChangedState | PartitionState, than: ChangedState | PartitionState) -> bool:
    """Whether a state is later than another one, assuming that ZooKeeper has not lost data."""
    known = than.leader_epoch, than.partition_epoch
    return (state.leader_epoch, state.partition_epoch) > known


def _with(partition: PartitionState, state: ChangedState | PartitionState) -> PartitionState:
    if state.assignment is not None:
        partition = partition.with_assignment(state.assignment)
    return replace(
        partition,
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        isr=state.isr,
        partition_epoch=state.partition_epoch,
        **(state.eligible if isinstance(state, ChangedState) else eligible_of(state))._asdict(),
    )
