"""Metrics as plain values, and the registry of their sources. Independent of any output format."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from enum import StrEnum
from typing import Final, NamedTuple


class Kind(StrEnum):
    """The kind of a measure: a gauge may fall, a counter only grows until the broker ends.

    The last label of a histogram's samples is the upper bound of a bucket, which has all samples
    below it as well, or `SUM`.
    """

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


#: The "bound" of the sample that is the sum of a histogram's values, and that of its last bucket.
SUM: Final = "sum"
INFINITE: Final = "+Inf"


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
        self._begin: list[Callable[[], Source]] = []
        self._prepare: list[Callable[[], Awaitable[None]]] = []

    def add(self, source: Source) -> None:
        """Add a source, which is called each time the metrics are collected."""
        self._begin.append(lambda: source)

    def add_begun(self, begin: Callable[[], Source]) -> None:
        """Add a source with a beginning on the event loop, which must be short."""
        self._begin.append(begin)

    def add_prepared(
        self, prepare: Callable[[], Awaitable[None]], begin: Callable[[], Source]
    ) -> None:
        """Like `add_begun`, for a source that has to wait for something before."""
        self._prepare.append(prepare)
        self._begin.append(begin)

    async def begin(self) -> Source:
        """Begin to collect, on the event loop; the result is for a thread."""
        for prepare in self._prepare:
            await prepare()
        sources = [begin() for begin in self._begin]
        return lambda: (measure for source in sources for measure in source())
