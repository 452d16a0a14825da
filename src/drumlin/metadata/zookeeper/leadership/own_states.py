"""Changes of states that a broker makes itself: as a leader, or as a replica.

They are decided on what is stored, and made as long as the broker is registered in its epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from drumlin.metadata.image import PartitionId, PartitionState
from drumlin.metadata.rules.leadership import (
    NO_EPOCH,
    Returned,
    handed_over,
    in_next_epoch,
    returned,
)
from drumlin.metadata.store.isr_wishes import granted
from drumlin.metadata.store.store import IsrWish
from drumlin.metadata.zookeeper.leadership.rewriting import place_of, rewrite_in_parts
from drumlin.metadata.zookeeper.states.partition_states import unwritten
from drumlin.metadata.zookeeper.states.states import Place, Rewritten
from drumlin.metadata.zookeeper.znodes import layout
from drumlin.turns import give_way
from drumlin.wire.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from drumlin.metadata.image import TopicState
    from drumlin.metadata.zookeeper.parts import Parts
    from drumlin.metadata.zookeeper.states.states import Decision
    from drumlin.metadata.zookeeper.znodes.operations import BrokerFence


class OwnStates:
    """Of the broker of one store."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._image = parts.image
        self._node_id = parts.config.node_id

    # -- as the leader -----------------------------------------------------------------------

    async def alter_isrs(
        self, wishes: Mapping[PartitionId, IsrWish]
    ) -> dict[PartitionId, PartitionState | KafkaError]:
        """See `store.MetadataStore.alter_isrs`."""
        outcomes: dict[PartitionId, PartitionState | KafkaError] = {}
        places = []
        for partition in wishes:
            place = place_of(self._image, partition)
            if place is None:
                outcomes[partition] = KafkaError(ErrorCode.unknown_topic_id)
            else:
                places.append(place)
            await give_way()

        min_isrs = await self._parts.min_isrs(each.topic for each in places)

        def decide(place: Place, state: PartitionState, alive: Mapping[int, int]) -> PartitionState:
            wish = wishes[place.partition]
            return granted(wish, state, self._node_id, alive, min_isrs[place.topic])

        written = await self._rewrite(places, decide)
        for telling in await self._parts.states.take(written.stored):
            await telling
        for place in places:
            partition = place.partition
            error, state = written.errors.get(partition), written.stored.get(partition)
            outcomes[partition] = error or state or KafkaError(ErrorCode.unknown_topic_id)
            await give_way()
        return outcomes

    async def advance_all(self) -> None:
        """Begin a new leader epoch wherever this broker leads."""
        await self._advance(await self._places(lambda each: each.leader == self._node_id))

    async def advance(self, partitions: Collection[PartitionId]) -> None:
        """Begin a new leader epoch in these partitions, where this broker leads them."""
        found = [place_of(self._image, each) for each in partitions]
        await self._advance([each for each in found if each is not None])

    async def _advance(self, places: Sequence[Place]) -> None:
        def decide(_place: Place, state: PartitionState, _: Mapping[int, int]) -> PartitionState:
            return in_next_epoch(state, self._node_id)

        written = await self._rewrite(places, decide)
        led = {
            partition: state
            for partition, state in written.stored.items()
            if state.leader == self._node_id  # of others there is news, which is told
        }
        await self._parts.states.take(led, is_told=False)
        for error in written.errors.values():
            raise error

    async def complete(self, topic: TopicState, missing: Collection[str]) -> TopicState:
        """Write those states of new partitions that have these paths: they were too many at once.

        Of these the topic that is returned has no states that any other would not be newer than.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR.
        """
        topic = unwritten(
            topic,
            {
                each.index
                for each in topic.partitions
                if layout.state_path(topic.name, each.index) in missing
            },
        )
        places = list(_places_of(topic, lambda each: each.partition_epoch == NO_EPOCH))
        written = await self._rewrite(places, lambda _place, state, _alive: state)
        await self._parts.states.take(written.stored)
        for error in written.errors.values():
            raise error
        return topic

    # -- as a replica ------------------------------------------------------------------------

    async def leave(self, lacking: Mapping[PartitionId, Returned], fence: BrokerFence) -> None:
        """Have it known of these partitions that this broker may lack records: `returned`.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR.
        """
        found = [place_of(self._image, each) for each in lacking]
        places = [each for each in found if each is not None]
        min_isrs = await self._parts.min_isrs(each.topic for each in places)

        def decide(place: Place, state: PartitionState, alive: Mapping[int, int]) -> PartitionState:
            remains = lacking[place.partition]
            return returned(state, self._node_id, remains, alive, min_isrs[place.topic])

        await self._rewrite_told(places, decide, fence)

    async def hand_over(self, fence: BrokerFence) -> None:
        """See `store.MetadataStore.hand_over`; in an epoch of which no other broker knows."""

        def decide(place: Place, state: PartitionState, alive: Mapping[int, int]) -> PartitionState:
            return handed_over(state, self._node_id, alive, min_isrs[place.topic])

        def can_leave(state: PartitionState) -> bool:
            return self._node_id in state.isr and len(state.isr) > 1

        places = await self._places(can_leave)
        min_isrs = await self._parts.min_isrs(each.topic for each in places)
        await self._rewrite_told(places, decide, fence)

    async def _rewrite_told(
        self, places: Sequence[Place], decide: Decision, fence: BrokerFence
    ) -> None:
        written = await self._rewrite(places, decide, fence)
        for telling in await self._parts.states.take(written.stored):
            await telling
        if written.failure is not None:
            raise written.failure
        for error in written.errors.values():
            self._parts.say(str(error))

    # -- partitions --------------------------------------------------------------------------

    async def _places(self, is_wanted: Callable[[PartitionState], bool]) -> list[Place]:
        places = []
        for topic in list(self._image.topics.values()):
            places += list(_places_of(topic, is_wanted))
            await give_way()
        return places

    async def _rewrite(
        self, places: Sequence[Place], decide: Decision, fence: BrokerFence | None = None
    ) -> Rewritten:
        return await rewrite_in_parts(
            self._parts, places, decide, lambda: self._parts.writer(fence)
        )


def _places_of(topic: TopicState, is_wanted: Callable[[PartitionState], bool]) -> Iterator[Place]:
    return (Place(topic.topic_id, topic.name, each) for each in topic.partitions if is_wanted(each))
