"""A store of the offsets that groups have committed, by group, topic and partition.

An offset is kept as the encoded value of its record. So half a million offsets are half a million
byte strings, which the garbage collector does not traverse.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from drumlin.coordination.groups.offsets.offset_records import (
    CommittedOffset,
    OffsetKey,
    decode_offset,
)

#: Partition -> the value, as read by `decode_offset`.
TopicOffsets = dict[int, bytes]


class CommittedOffsets:
    """Committed offsets, in the order in which topics and partitions first had one."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[str, TopicOffsets]] = {}

    def put(self, key: OffsetKey, value: bytes) -> None:
        topics = self._groups.setdefault(key.group_id, {})
        topics.setdefault(key.topic, {})[key.partition] = value

    def put_all(
        self, group_id: str, topic: str, partitions: Iterable[int], values: Iterable[bytes]
    ) -> None:
        """Like `put`, for many partitions of one topic."""
        topics = self._groups.setdefault(group_id, {})
        topics.setdefault(topic, {}).update(zip(partitions, values, strict=True))

    def take_group(self, group_id: str, topics: dict[str, TopicOffsets]) -> None:
        """Take ownership of all offsets of a group. The group must have no offsets here yet."""
        assert group_id not in self._groups
        self._groups[group_id] = topics

    def remove(self, key: OffsetKey) -> None:
        topics = self._groups.get(key.group_id, {})
        partitions = topics.get(key.topic, {})
        if partitions.pop(key.partition, None) is None:
            return
        if not partitions:
            del topics[key.topic]
        if not topics:
            del self._groups[key.group_id]

    def remove_all(self, group_id: str, topic: str, partitions: Sequence[int]) -> None:
        """Like `remove`, for many partitions of one topic."""
        topics = self._groups.get(group_id, {})
        known = topics.get(topic)
        if known is None:
            return
        for partition in partitions:
            known.pop(partition, None)
        if not known:
            del topics[topic]
        if not topics:
            del self._groups[group_id]

    def packed(self, group_id: str, topic: str, partition: int) -> bytes | None:
        return self._groups.get(group_id, {}).get(topic, {}).get(partition)

    def get(self, group_id: str, topic: str, partition: int) -> CommittedOffset | None:
        value = self.packed(group_id, topic, partition)
        return None if value is None else decode_offset(value)

    def groups(self) -> dict[str, dict[str, TopicOffsets]]:
        """All offsets by group; the caller must not change them."""
        return self._groups

    def topics(self, group_id: str) -> dict[str, TopicOffsets]:
        """All offsets of the group; the caller must not change them."""
        return self._groups.get(group_id, {})
