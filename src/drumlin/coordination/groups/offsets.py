"""The offsets that groups have committed: a plain store, by group, topic and partition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from drumlin.coordination.groups.records import CommittedOffset, OffsetKey

TopicOffsets = dict[int, CommittedOffset]


class CommittedOffsets:
    """What is committed, in the order in which topics and partitions first were."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[str, TopicOffsets]] = {}

    def put(self, key: OffsetKey, committed: CommittedOffset) -> None:
        topics = self._groups.setdefault(key.group_id, {})
        topics.setdefault(key.topic, {})[key.partition] = committed

    def put_all(
        self, group_id: str, committed: Iterable[tuple[OffsetKey, CommittedOffset]]
    ) -> None:
        """As `put`, for many of one group."""
        topics = self._groups.setdefault(group_id, {})
        for key, value in committed:
            topics.setdefault(key.topic, {})[key.partition] = value

    def remove(self, key: OffsetKey) -> None:
        topics = self._groups.get(key.group_id, {})
        partitions = topics.get(key.topic, {})
        if partitions.pop(key.partition, None) is None:
            return
        if not partitions:
            del topics[key.topic]
        if not topics:
            del self._groups[key.group_id]

    def get(self, group_id: str, topic: str, partition: int) -> CommittedOffset | None:
        return self._groups.get(group_id, {}).get(topic, {}).get(partition)

    def topics(self, group_id: str) -> dict[str, TopicOffsets]:
        """Everything that the group has committed; not to be changed by the caller."""
        return self._groups.get(group_id, {})

    def items(self, group_id: str) -> Iterator[tuple[OffsetKey, CommittedOffset]]:
        for topic, partitions in self.topics(group_id).items():
            for partition, committed in partitions.items():
                yield OffsetKey(group_id, topic, partition), committed

    def keys_of_topic(self, topic: str) -> list[OffsetKey]:
        """Everything that is committed for a topic of that name."""
        return [
            OffsetKey(group_id, topic, partition)
            for group_id, topics in self._groups.items()
            for partition in topics.get(topic, ())
        ]
