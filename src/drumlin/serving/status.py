"""The lag of a store behind its topics. Read-only: claims and creates nothing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from drumlin.client.consumer.options import Subscription
from drumlin.client.consumer.topics import wanted_topics
from drumlin.client.errors import translated
from drumlin.client.table.loading import ISOLATION
from drumlin.serving.targets import Store

if TYPE_CHECKING:
    from drumlin.client.client import Client


class PartitionStatus(NamedTuple):
    """The status of a partition. `position` is None if the store has no position for it yet."""

    topic: str
    partition: int
    position: int | None
    end: int
    lag: int


def look(
    client: Client, topics: str | Sequence[str] | re.Pattern[str], store: Store
) -> list[PartitionStatus]:
    """The store's positions, and the end offsets of the logs.

    Raises:
        UnknownTopic: there is no such topic.
        OSError: the store cannot be reached.
    """
    with translated():
        wanted = client._thread.run(wanted_topics(client._connections, Subscription.of(topics)))
    topics_now = client.describe_topics(sorted(wanted)) if wanted else {}
    # Positions first: so even if the log grows in between, no position is after an end offset.
    positions = {
        name: store.target(name).positions({each.index for each in topic.partitions})
        for name, topic in topics_now.items()
    }
    places = [(name, each.index) for name, topic in topics_now.items() for each in topic.partitions]
    ends = client.list_offsets(dict.fromkeys(places, "latest"), isolation=ISOLATION)
    found = []
    for (topic, partition), end in sorted(ends.items()):
        at = positions[topic].get(partition)
        # The position of a deleted topic with the same name does not apply to this one.
        is_its = at is not None and at.topic_id == topics_now[topic].topic_id
        position = at.offset if at is not None and is_its else None
        lag = max(end.offset - (position or 0), 0)
        found.append(PartitionStatus(topic, partition, position, end.offset, lag))
    return found
