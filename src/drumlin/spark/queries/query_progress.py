"""The progress of a streaming query, from what Spark reports after each batch. Pure.

A source's offsets are in there in the checkpoint's form, which Spark's Kafka source has, too. So
its queries are understood as well; other sources are left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from drumlin.spark.options.offsets import TopicPartition, from_json, without_topic_ids


class TopicProgress(NamedTuple):
    """The progress in one topic, over all of its partitions.

    Attributes:
        behind: offsets after the query's position.
        offsets: offsets of the last batch.
        offsets_per_s: the same for each second that the batch took; 0 if it took no time.

    What is unknown of a partition is None for its topic.
    """

    behind: int | None
    offsets: int | None
    offsets_per_s: float | None


@dataclass(frozen=True, slots=True)
class PartitionProgress:
    """The progress in one partition, as of the last batch.

    Attributes:
        source: the number of the source among those of the query. A stream that is joined with
            itself has two.
        start_offset: the first offset of the last batch; None if it is unknown, as Spark does not
            report it for the first batch of a query or of a partition.
        end_offset: the end of the last batch, where the query is now.
        latest_offset: the end of the log; None if it is unknown.
    """

    source: int
    topic: str
    partition: int
    start_offset: int | None
    end_offset: int
    latest_offset: int | None

    @property
    def offsets(self) -> int | None:
        """The offsets of the last batch."""
        return _between(self.start_offset, self.end_offset)

    @property
    def behind(self) -> int | None:
        """Offsets between the query's position and the end of the log."""
        return _between(self.end_offset, self.latest_offset)


@dataclass(frozen=True, slots=True)
class SourceRates:
    """The rows of one source in the last batch, and their rates as Spark counts them.

    Attributes:
        input_rows_per_s: rows for each second since the batch before.
        processed_rows_per_s: rows for each second that the batch took.
    """

    source: int
    rows: int
    input_rows_per_s: float
    processed_rows_per_s: float


@dataclass(frozen=True, slots=True)
class QueryProgress:
    """A query's progress, of the sources that read topics."""

    query_id: str
    run_id: str
    name: str | None
    batch_id: int
    batch_duration_ms: int
    timestamp: str
    sources: tuple[SourceRates, ...]
    partitions: tuple[PartitionProgress, ...]

    @property
    def behind(self) -> int | None:
        """Offsets after the query's position in all partitions; None if one is unknown."""
        return _sum(each.behind for each in self.partitions)

    @property
    def rows_per_s(self) -> float:
        """Rows for each second that the last batch took."""
        return sum(each.processed_rows_per_s for each in self.sources)

    def by_topic(self) -> dict[str, TopicProgress]:
        """The progress in each topic."""
        found: dict[str, list[PartitionProgress]] = {}
        for each in self.partitions:
            found.setdefault(each.topic, []).append(each)
        return {topic: self._of(partitions) for topic, partitions in sorted(found.items())}

    def _of(self, partitions: list[PartitionProgress]) -> TopicProgress:
        offsets = _sum(each.offsets for each in partitions)
        per_ms = 1 / self.batch_duration_ms if self.batch_duration_ms else 0.0
        rate = None if offsets is None else 1000 * offsets * per_ms
        return TopicProgress(_sum(each.behind for each in partitions), offsets, rate)


def _between(start: int | None, end: int | None) -> int | None:
    """The offsets between these; a log that was created again may end before its start."""
    return None if start is None or end is None else max(0, end - start)


def _sum(numbers: Iterable[int | None]) -> int | None:
    total = 0
    for each in numbers:
        if each is None:
            return None
        total += each
    return total


def progress_of(
    reported: Mapping[str, Any], latest: Mapping[TopicPartition, int] | None = None
) -> QueryProgress:
    """The progress in a `StreamingQueryProgress` of PySpark, of any kind of session.

    Args:
        reported: Spark's report, as `query.lastProgress`.
        latest: ends of the logs that are newer than those in the report.
    """
    sources: list[SourceRates] = []
    partitions: list[PartitionProgress] = []
    for number, source in enumerate(reported["sources"]):
        end = _offsets(source["endOffset"])
        if end is None:
            continue
        rates = (source["inputRowsPerSecond"], source["processedRowsPerSecond"])
        sources.append(SourceRates(number, source["numInputRows"], *map(_rate, rates)))
        ends = _offsets(source["latestOffset"]) or {}
        partitions += _partitions(number, _offsets(source["startOffset"]), end, latest or ends)
    return QueryProgress(
        query_id=str(reported["id"]),
        run_id=str(reported["runId"]),
        name=reported["name"],
        batch_id=reported["batchId"],
        batch_duration_ms=reported["batchDuration"],
        timestamp=reported["timestamp"],
        sources=tuple(sources),
        partitions=tuple(partitions),
    )


def _partitions(
    source: int,
    start: Mapping[TopicPartition, int] | None,
    end: Mapping[TopicPartition, int],
    latest: Mapping[TopicPartition, int],
) -> Iterator[PartitionProgress]:
    for key, offset in sorted(end.items()):
        begin = (start or {}).get(key)
        yield PartitionProgress(source, key.topic, key.partition, begin, offset, latest.get(key))


def _offsets(text: str | None) -> dict[TopicPartition, int] | None:
    """A source's offsets; None if they are not those of topics."""
    try:
        form = json.loads(text or "null")
        return from_json(without_topic_ids(form)[0]) if isinstance(form, dict) else None
    except (TypeError, ValueError):
        return None


def _rate(reported: float | None) -> float:
    """A rate that Spark reports: it leaves out the ones that are infinite or unknown."""
    return reported or 0.0
