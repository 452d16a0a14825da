"""The broker that coordinates a key, by the image. Never creates the coordinator's topic."""

from __future__ import annotations

from drumlin.coordination.shards.state_partitions import partition_for
from drumlin.metadata.image import NO_LEADER, ClusterImage


def coordinator_of(image: ClusterImage, topic_name: str, key: str) -> int | None:
    """The leader of the key's partition; NO_LEADER while it has none; None if the topic does not
    exist.
    """
    topic = image.topics.get(topic_name)
    if topic is None:
        return None
    state = topic.partition(partition_for(key, len(topic.partitions)))
    return NO_LEADER if state is None else state.leader
