"""Rewriting states of partitions from the event loop, some at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final

from drumlin.metadata.zookeeper.states import Place, Rewritten, rewrite_states
from drumlin.wire.errors import KafkaError

if TYPE_CHECKING:
    from drumlin.metadata.image import ClusterImage, PartitionId
    from drumlin.metadata.zookeeper.commits import Commits
    from drumlin.metadata.zookeeper.states import Decision, Writer

#: Other requests have their turn in between.
_TOGETHER: Final = 1000


def place_of(image: ClusterImage, partition: PartitionId) -> Place | None:
    """The partition as it is known here."""
    topic = image.topics_by_id.get(partition.topic_id)
    state = None if topic is None else topic.partition(partition.partition)
    if topic is None or state is None:
        return None
    return Place(topic.topic_id, topic.name, state)


async def rewrite_in_parts(
    commits: Commits, places: Sequence[Place], decide: Decision, writer: Callable[[], Writer]
) -> Rewritten:
    """See `rewrite_states`; `writer` may raise a `KafkaError`."""
    whole, left = Rewritten(), iter(places)
    while some := list(islice(left, _TOGETHER)):
        try:
            part = await commits.run(rewrite_states, some, decide, writer())
        except KafkaError as error:
            part = Rewritten(errors={each.partition: error for each in some}, failure=error)
        whole.stored.update(part.stored)
        whole.errors.update(part.errors)
        whole.failure = whole.failure or part.failure
    return whole
