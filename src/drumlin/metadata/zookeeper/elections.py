"""Elections that somebody asks for: made by any broker, on what is stored."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Final

from drumlin.metadata.elections import elected
from drumlin.metadata.image import PartitionId, PartitionState
from drumlin.metadata.zookeeper.states import Place, rewrite_states
from drumlin.turns import Pace
from drumlin.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from drumlin.metadata.zookeeper.parts import Parts

_log = logging.getLogger(__name__)

#: Partitions that are asked for at once: other requests have their turn in between.
_TOGETHER: Final = 1000

_Outcomes = dict[PartitionId, PartitionState | KafkaError]


async def elect_leaders(
    parts: Parts, partitions: Collection[PartitionId], *, is_unclean: bool
) -> _Outcomes:
    """See `store.MetadataStore.elect_leaders`."""
    outcomes: _Outcomes = dict.fromkeys(partitions, KafkaError(ErrorCode.unknown_topic_id))
    places, pace = [], Pace()
    for partition in partitions:
        topic = parts.image.topics_by_id.get(partition.topic_id)
        state = None if topic is None else topic.partition(partition.partition)
        if topic is not None and state is not None:
            places.append(Place(topic.topic_id, topic.name, state))
        await pace.give_way()

    def decide(place: Place, state: PartitionState, alive: Mapping[int, int]) -> PartitionState:
        wanted = elected(state, alive, is_unclean=is_unclean)
        if wanted.leader not in state.isr:
            _log.error(
                "%s-%d: none of its in-sync replicas %s is alive, and broker %d is elected as was "
                "asked for: acknowledged records may be lost",
                place.topic,
                state.index,
                list(state.isr),
                wanted.leader,
            )
        return wanted

    left = iter(places)
    while some := list(islice(left, _TOGETHER)):
        written = await parts.commits.run(rewrite_states, some, decide, parts.writer())
        for telling in await parts.states.take(written.stored):
            await telling
        outcomes |= {**written.stored, **written.errors}
    return outcomes
