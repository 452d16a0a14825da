"""Elections that somebody asks for: made by any broker, on what is stored."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from drumlin.metadata.image import PartitionId, PartitionState
from drumlin.metadata.rules.election_news import say_how_elected
from drumlin.metadata.rules.elections import elected
from drumlin.metadata.zookeeper.leadership.rewriting import place_of, rewrite_in_parts
from drumlin.turns import give_way
from drumlin.wire.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from drumlin.metadata.zookeeper.parts import Parts
    from drumlin.metadata.zookeeper.states.states import Place

_Outcomes = dict[PartitionId, PartitionState | KafkaError]


async def elect_leaders(
    parts: Parts, partitions: Collection[PartitionId], *, is_unclean: bool
) -> _Outcomes:
    """See `store.MetadataStore.elect_leaders`."""
    outcomes: _Outcomes = dict.fromkeys(partitions, KafkaError(ErrorCode.unknown_topic_id))
    places = []
    for partition in partitions:
        place = place_of(parts.image, partition)
        if place is not None:
            places.append(place)
        await give_way()

    min_isrs = await parts.min_isrs(each.topic for each in places)

    def decide(place: Place, state: PartitionState, alive: Mapping[int, int]) -> PartitionState:
        wanted = elected(state, alive, min_isrs[place.topic], is_unclean=is_unclean)
        say_how_elected(place.topic, state, wanted, "an operator has asked for it")
        return wanted

    written = await rewrite_in_parts(parts, places, decide, parts.writer)
    for telling in await parts.states.take(written.stored):
        await telling
    return outcomes | written.stored | written.errors
