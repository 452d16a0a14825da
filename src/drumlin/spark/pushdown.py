"""What filters of a batch query say of the places to read: partitions, offsets, a time. Pure.

Filters on partition and offset are kept by reading nothing else, and Spark need not apply them
again. Filters on the timestamp bound where to begin: times need not grow with offsets, so
what lies behind the first record that is young enough may be older, and Spark filters all the same.

Only with the option `pushFilters`: PySpark 4.3 keeps for a DataFrame what its last filter left to
read, and reads no more for a query on the same DataFrame that has no filter, or another one.
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

from drumlin.spark.offsets import TopicPartition

Offsets = Mapping[TopicPartition, int]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_WORKER: Final = "pyspark.sql.worker.data_source_pushdown_filters"
_NEVER_NULL: Final = {"partition", "offset", "timestamp", "topic", "timestampType"}


def is_offered() -> bool:
    """Whether this process was started to hand filters down.

    PySpark refuses a reader that takes filters where its setting is off, and tells the source
    in no other way: with the setting on, another module of PySpark asks for the reader.
    """
    return _WORKER in sys.modules


@dataclass(frozen=True, slots=True)
class Span:
    """The whole numbers from `first` to `last`; None where there is no bound."""

    first: int | None = None
    last: int | None = None

    def and_(self, other: Span) -> Span:
        """The numbers that are in both."""
        firsts = [each for each in (self.first, other.first) if each is not None]
        lasts = [each for each in (self.last, other.last) if each is not None]
        return Span(max(firsts, default=None), min(lasts, default=None))

    def holds(self, number: int) -> bool:
        return (self.first is None or self.first <= number) and (
            self.last is None or number <= self.last
        )


@dataclass(frozen=True, slots=True)
class Bounds:
    """Which records the filters of a query leave: none outside of these."""

    partitions: Span = Span()
    among: frozenset[int] | None = None  # partitions by number
    offsets: Span = Span()
    since_ms: int | None = None  # none that is older

    def reads(self, partition: int) -> bool:
        """Whether anything of a partition is wanted."""
        return self.partitions.holds(partition) and (self.among is None or partition in self.among)

    def cut(self, start: Offsets, end: Offsets, since: Offsets) -> tuple[Offsets, Offsets]:
        """What is left to read between `start` and `end`.

        `since` has the first offsets at `since_ms`, -1 where no record is that young. Where an
        end lies before its start it stays so: that is a loss, for others to report.
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
    """The bounds that filters set, and the filters that Spark must apply all the same."""
    bounds, left = Bounds(), []
    for each in filters:
        narrowed, is_exact = _narrowed(bounds, each)
        bounds = narrowed
        if not is_exact:
            left.append(each)
    return bounds, left


def _narrowed(bounds: Bounds, each: Filter) -> tuple[Bounds, bool]:
    """The bounds with one filter more, and whether it needs no other judge then."""
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
    """What a comparison with a whole number leaves; None for anything else."""
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

    ListOffsets has names of its own for times before the epoch: those set no bound.
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
