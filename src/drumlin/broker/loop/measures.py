"""Metrics as plain values, and the registry of their sources. Independent of any output format."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import NamedTuple


class Kind(StrEnum):
    """The kind of a measure: a gauge may fall, a counter only grows until the broker ends."""

    GAUGE = "gauge"
    COUNTER = "counter"


class Sample(NamedTuple):
    """One value; `labels` are the values of the measure's labels, in their order."""

    labels: tuple[str, ...]
    value: float


class Measure(NamedTuple):
    """One measure, named by Prometheus's rules: base unit last, counters without their `_total`."""

    name: str
    kind: Kind
    documentation: str
    labels: tuple[str, ...]
    samples: tuple[Sample, ...]


#: A source of measures. It may block, as it is called in a thread.
Source = Callable[[], Iterable[Measure]]


class Metrics:
    """All sources."""

    def __init__(self) -> None:
        self._sources: list[Source] = []

    def add(self, source: Source) -> None:
        """Add a source, which is called each time the metrics are collected."""
        self._sources.append(source)

    def collect(self) -> Iterable[Measure]:
        """The current value of all measures. Blocks."""
        for source in self._sources:
            yield from source()
