"""Partitions grouped by topic, for requests. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from drumlin.coordination.transactions.markers import TopicPartition

#: Partitions of one transaction in a request: half a millisecond to collect, encode and read.
AT_ONCE: Final = 500


def in_pieces(partitions: Sequence[TopicPartition]) -> Iterator[Sequence[TopicPartition]]:
    """All partitions, in pieces that each fit into a request."""
    for first in range(0, len(partitions), AT_ONCE):
        yield partitions[first : first + AT_ONCE]


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, tuple[int, ...]]:
    """The numbers of the partitions of each topic."""
    topics: dict[str, list[int]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(index)
    return {topic: tuple(indexes) for topic, indexes in topics.items()}
