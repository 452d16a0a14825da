"""Counts of the records that clients write to topics and read from them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final
from uuid import UUID

if TYPE_CHECKING:
    import re

    from drumlin.metadata.image import ClusterImage


#: The name of all topics together that have no metrics of their own.
OTHERS: Final = ""


class TopicCounts:
    """The traffic of one topic at this broker."""

    __slots__ = (
        "failed_fetches",
        "failed_produces",
        "has_series",
        "in_bytes",
        "in_records",
        "out_bytes",
    )

    def __init__(self, *, has_series: bool = False) -> None:
        #: Whether the topic has metrics of its own; otherwise it counts in a sum.
        self.has_series = has_series
        self.in_bytes = 0
        self.in_records = 0
        self.out_bytes = 0
        #: Partitions in requests that were answered with an error.
        self.failed_produces = 0
        self.failed_fetches = 0

    def add(self, other: TopicCounts) -> None:
        self.in_bytes += other.in_bytes
        self.in_records += other.in_records
        self.out_bytes += other.out_bytes
        self.failed_produces += other.failed_produces
        self.failed_fetches += other.failed_fetches


class TrafficByTopic(dict[str, TopicCounts]):
    """The counts of topics by their names; the entry of a topic is made when it is first used.

    Use it only with the names of topics that exist: clients must not make entries with others. A
    topic keeps its place among those with metrics of their own until it is deleted, so that no
    counter falls.
    """

    def __init__(self, pattern: re.Pattern[str], most: int) -> None:
        """`pattern`, `most`: which topics, and how many at most, have metrics of their own."""
        super().__init__()
        self._pattern, self._places = pattern, most
        #: The traffic of unknown topics, and of deleted ones that had no metrics of their own.
        self.others = TopicCounts()
        #: Bytes that followers have fetched from here.
        self.replicated_bytes = 0

    def __missing__(self, topic: str) -> TopicCounts:
        has_series = self._places > 0 and self._pattern.fullmatch(topic) is not None
        self._places -= has_series
        counts = self[topic] = TopicCounts(has_series=has_series)
        return counts

    def note(self, topics: Iterable[str]) -> None:
        """Give places to topics that had no traffic yet."""
        for topic in topics:
            _ = self[topic]

    def shown_name(self, topic: str) -> str | None:
        """The name under which metrics show a topic: none if there is no such topic."""
        counts = self.get(topic)
        if counts is None:
            return None
        return topic if counts.has_series else OTHERS

    def known(self, image: ClusterImage, topic: bytes, *, by_id: bool) -> TopicCounts:
        """The counts of a topic that a request names, if there is such a topic."""
        if by_id:
            found = image.topics_by_id.get(UUID(bytes=topic))
        else:
            found = image.topics.get(topic.decode(errors="replace"))
        return self.others if found is None else self[found.name]

    def forget(self, topic: str) -> None:
        """Forget a deleted topic."""
        counts = self.pop(topic, None)
        if counts is None:
            return
        if counts.has_series:
            self._places += 1
        else:
            self.others.add(counts)
