"""Decides which offsets a micro-batch takes and how they are divided among tasks. Pure.

This module must never ask a broker: offsets go in, ranges come out. Sizes are counted in offsets.
Because of compaction and transaction markers there may be fewer records than offsets.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from drumlin.spark.options.offsets import TopicPartition
from drumlin.spark.options.portable import Portable

_FETCH_BYTES_MIN: Final = 64 << 10


@dataclass(frozen=True, slots=True)
class PlannedRange(Portable):
    """An `OffsetRange` of the client, `[start_offset, end_offset)`, with its topic id and size.

    `topic_id`, if known, is the topic's id at the time of planning. If the topic is missing later,
    the id proves whether it was deleted. `size_bytes` is the expected size of the records, or None
    if it is unknown.
    """

    topic: str
    partition: int
    start_offset: int
    end_offset: int
    topic_id: str | None = None
    size_bytes: int | None = field(default=None, compare=False)

    @property
    def size(self) -> int:
        return self.end_offset - self.start_offset

    @property
    def fetch_bytes(self) -> int | None:
        """The size of a fetch that hardly reads beyond the end of a small range."""
        return None if self.size_bytes is None else self.size_bytes * 5 // 4 + _FETCH_BYTES_MIN

    @property
    def key(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    def part(self, start_offset: int, end_offset: int, size_bytes: int | None) -> PlannedRange:
        """A part of these offsets, with its expected size."""
        return replace(
            self, start_offset=start_offset, end_offset=end_offset, size_bytes=size_bytes
        )

    def split(self, parts: int) -> list[PlannedRange]:
        """This range, split into `parts` ranges of equal size, give or take one offset."""
        borders = [self.start_offset + self.size * part // parts for part in range(parts + 1)]
        return [
            self.part(start, end, None) for start, end in itertools.pairwise(borders) if start < end
        ]


@dataclass(frozen=True, slots=True)
class SplitRule(Portable):
    """The rule by which ranges become tasks.

    By default they are split by bytes (see `density`), so that even a single partition keeps many
    cores busy. With either option set, the rule is that of Spark's Kafka source: first ranges are
    split to at most `max_records`, then the largest ones until there are about `min_partitions`
    tasks.
    """

    min_partitions: int | None = None
    max_records: int | None = None

    @property
    def by_size(self) -> bool:
        return self.min_partitions is None and self.max_records is None


def split_by_rule(ranges: Iterable[PlannedRange], rule: SplitRule) -> list[PlannedRange]:
    """Split ranges as the user's options ask; empty ones are dropped."""
    waiting = [each for each in ranges if each.size > 0]
    if rule.max_records is not None:
        limit = rule.max_records
        waiting = [piece for each in waiting for piece in each.split(-(-each.size // limit))]
    if rule.min_partitions is not None:
        waiting = _split_into_about(waiting, rule.min_partitions)
    return waiting


def _split_into_about(ranges: Sequence[PlannedRange], task_count: int) -> list[PlannedRange]:
    """Give one more part to the range with the largest parts, until there are enough."""
    parts = [1] * len(ranges)
    largest = [(-each.size, index) for index, each in enumerate(ranges)]
    heapq.heapify(largest)
    for _ in range(task_count - len(ranges)):
        size, index = largest[0] if largest else (-1, 0)
        if size > -2:  # parts of a single offset: nothing is left to split
            break
        parts[index] += 1
        heapq.heapreplace(largest, (-ranges[index].size // parts[index], index))
    return [piece for each, count in zip(ranges, parts, strict=True) for piece in each.split(count)]


def limit_rows(
    start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int], max_rows: int
) -> dict[TopicPartition, int]:
    """Bring `end` nearer to `start` so that about `max_rows` offsets lie between them.

    Each partition gets a share of the limit in proportion to its offsets, and at least one, so
    that a small partition never starves next to a large one.
    """
    waiting = {key: offset - start[key] for key, offset in end.items() if offset > start[key]}
    total = sum(waiting.values())
    if total <= max_rows:
        return dict(end)
    shares = {key: max(1, max_rows * size // total) for key, size in waiting.items()}
    return {
        key: start[key] + min(shares[key], waiting[key]) if key in waiting else offset
        for key, offset in end.items()
    }


def rows_between(start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> int:
    """The number of offsets between `start` and `end`."""
    return sum(max(0, offset - start[key]) for key, offset in end.items())
