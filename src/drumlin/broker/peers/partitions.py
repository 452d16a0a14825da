"""Partitions as requests name them: by topic. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from drumlin.coordination.transactions.markers import TopicPartition

#: Of one transaction in a request: half a millisecond's worth, put together, encoded and read.
AT_ONCE: Final = 500


def in_pieces(partitions: Sequence[TopicPartition]) -> Iterator[Sequence[TopicPartition]]:
    """All of them, as many at a time as go into a request."""
    for first in range(0, len(partitions), AT_ONCE):
        yield partitions[first : first + AT_ONCE]


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, tuple[int, ...]]:
    """The numbers of the partitions of each topic."""
    topics: dict[str, list[int]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(index)
    return {topic: tuple(indexes) for topic, indexes in topics.items()}
