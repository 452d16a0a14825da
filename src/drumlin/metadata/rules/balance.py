"""Leader balance: the choice of partitions to return to their preferred leaders. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from drumlin.metadata.image import PartitionId, TopicState
from drumlin.turns import give_way


async def to_be_led_as_preferred(
    topics: Iterable[TopicState], alive: Iterable[int], percentage: int
) -> list[PartitionId]:
    """The partitions of unbalanced brokers that should return to their preferred leaders.

    A live broker is unbalanced if more than `percentage` of the partitions that prefer it have
    other leaders. Only partitions that the preferred broker could lead count as having another
    leader.
    """
    live = set(alive)
    preferred: Counter[int] = Counter()
    elsewhere: dict[int, list[PartitionId]] = {}
    for topic in topics:
        for state in topic.partitions:
            first = state.replicas[0]
            preferred[first] += 1
            if (
                first in live
                and state.leader != first
                and first in state.isr
                and not state.is_reassigned
            ):
                where = PartitionId(topic.topic_id, state.index)
                elsewhere.setdefault(first, []).append(where)
        await give_way()
    return [
        where
        for broker, partitions in elsewhere.items()
        if 100 * len(partitions) > percentage * preferred[broker]
        for where in partitions
    ]
