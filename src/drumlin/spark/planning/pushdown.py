"""Turns the filters of a batch query into bounds on partitions, offsets and time. Pure.

Filters on partition and offset are met exactly by the range that is read, so Spark need not apply
them again. A filter on the timestamp only bounds the start. Timestamps need not grow with offsets:
records after the first match may be older, so Spark must filter, too.

Used only with the option `pushFilters`: PySpark 4.3 keeps the plan of a DataFrame's last filter,
and a later query on the same DataFrame, with another filter or none, then reads no more than that.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from drumlin.spark.options.offsets import TopicPartition

Offsets = Mapping[TopicPartition, int]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_WORKER: Final = "pyspark.sql.worker.data_source_pushdown_filters"
_NEVER_NULL: Final = {"partition", "offset", "timestamp", "topic", "timestampType"}


def is_offered() -> bool:
    """Whether PySpark started this process with filter pushdown switched on.

    If it is off, PySpark refuses a reader that takes filters. PySpark does not pass the setting to
    the source; but if it is on, PySpark creates the reader in a module of its own.
    """
    return _WORKER in sys.modules


@dataclass(frozen=True, slots=True)
class Span:
    """The whole numbers from `first` to `last`; None where there is no bound."""

    first: int | None = None
    last: int | None = None

    def and_(self, other: Span) -> Span:
        """The numbers that are in both spans."""
        firsts = [each for each in (self.first, other.first) if each is not None]
        lasts = [each for each in (self.last, other.last) if each is not None]
        return Span(max(firsts, default=None), min(lasts, default=None))

    def holds(self, number: int) -> bool:
        return (self.first is None or self.first <= number) and (
            self.last is None or number <= self.last
        )


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds on the records that pass a query's filters: no such record lies outside."""

    partitions: Span = Span()
    among: frozenset[int] | None = None  # only these partitions, if set
    offsets: Span = Span()
    since_ms: int | None = None  # only records that are not older

    def reads(self, partition: int) -> bool:
        """Whether the bounds let any record of a partition pass."""
        return self.partitions.holds(partition) and (self.among is None or partition in self.among)

    def cut(self, start: Offsets, end: Offsets, since: Offsets) -> tuple[Offsets, Offsets]:
        """The starts and ends within the bounds.

        `since` has the first offsets at `since_ms`, -1 if there is no such record. A partition
        whose end lies before its start is left as it is: that is a data loss, which the caller
        reports.
        """
        starts, ends = {}, {}
        for key, end_offset in end.items():
            first, stop = start[key], end_offset
            if first <= stop:
                if not self.reads(key.partition):
                    continue
                first = max(first, self.offsets.first or 0)
                if self.offsets.last is not None:
                    stop = min(stop, self.offsets.last + 1)
                young = since.get(key, 0)
                first = max(first, stop if young < 0 else young)
                if first >= stop:
                    continue
            starts[key], ends[key] = first, stop
        return starts, ends


def take_filters(filters: Iterable[Filter]) -> tuple[Bounds, list[Filter]]:
    """The bounds that filters set, and the filters that Spark must still apply."""
    bounds, left = Bounds(), []
    for each in filters:
        narrowed, is_exact = _narrowed(bounds, each)
        bounds = narrowed
        if not is_exact:
            left.append(each)
    return bounds, left


def _narrowed(bounds: Bounds, each: Filter) -> tuple[Bounds, bool]:
    """The bounds narrowed by one more filter, and whether they meet the filter exactly."""
    attribute: tuple[str, ...] = getattr(each, "attribute", ())
    name = attribute[0] if len(attribute) == 1 else ""
    if isinstance(each, IsNotNull):
        return bounds, name in _NEVER_NULL
    if name == "timestamp":
        since_ms = _since_ms(each)
        if since_ms is None:
            return bounds, False
        return replace(bounds, since_ms=max(since_ms, bounds.since_ms or 0)), False
    if name == "partition" and isinstance(each, In) and all(map(_is_whole, each.value)):
        among = frozenset(each.value)
        both = among if bounds.among is None else among & bounds.among
        return replace(bounds, among=both), True
    span = _span(each) if name in ("partition", "offset") else None
    if span is None:
        return bounds, False
    if name == "partition":
        return replace(bounds, partitions=bounds.partitions.and_(span)), True
    is_exact = not isinstance(each, In) or _has_no_gaps(each.value)
    return replace(bounds, offsets=bounds.offsets.and_(span)), is_exact


def _span(each: Any) -> Span | None:
    """The span that a comparison with whole numbers leaves; None for any other filter."""
    if isinstance(each, In):
        if not each.value or not all(map(_is_whole, each.value)):
            return None
        return Span(min(each.value), max(each.value))
    value: Any = getattr(each, "value", None)
    if not _is_whole(value):
        return None
    spans: dict[type[Filter], Span] = {
        EqualTo: Span(value, value),
        EqualNullSafe: Span(value, value),
        GreaterThan: Span(first=value + 1),
        GreaterThanOrEqual: Span(first=value),
        LessThan: Span(last=value - 1),
        LessThanOrEqual: Span(last=value),
    }
    return spans.get(type(each))


def _is_whole(value: object) -> bool:
    return type(value) is int  # a bool is an int, but no offset


def _has_no_gaps(values: Iterable[int]) -> bool:
    found = set(values)
    return max(found) - min(found) + 1 == len(found)


def _since_ms(each: Any) -> int | None:
    """The millisecond before which no record passes; None if the filter sets no such bound.

    In ListOffsets, negative timestamps have special meanings: times before 1970 set no bound.
    """
    value = getattr(each, "value", None)
    if isinstance(each, In) and value and all(isinstance(time, datetime) for time in value):
        value = min(value, default=None)
    elif not isinstance(each, EqualTo | EqualNullSafe | GreaterThan | GreaterThanOrEqual):
        return None
    if not isinstance(value, datetime) or value.tzinfo is None:
        return None
    since_ms = (value - _EPOCH) // timedelta(milliseconds=1)
    return since_ms if since_ms > 0 else None
