"""The metrics of a landing for Prometheus, for each of its topics."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from drumlin.spark.landing.run import Landing

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

_PREFIX: Final = "drumlin_landing"
_LABELS: Final = ("topic", "to")


class LandingMetrics:
    """The progress of all topics. The landing's thread updates it, a server's threads read it."""

    def __init__(self) -> None:
        self._progress: dict[str, Landing] = {}
        self._at_end_s: dict[str, float] = {}
        self._retries = 0

    def tell(self, now: Landing) -> None:
        """Update the progress of a topic."""
        self._progress[now.topic] = now
        if now.lag == 0:
            self._at_end_s[now.topic] = time.time()

    def tell_retry(self) -> None:
        """Count a retry, as something could not be reached."""
        self._retries += 1

    def collect(self) -> Iterator[Metric]:
        """The metrics, in the form of `prometheus_client`."""
        from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily

        progress = list(self._progress.values())
        counters = {
            "offsets": ("Offsets that this run has landed.", [each.offsets for each in progress]),
            "rows": ("Rows that this run has added or changed.", [each.rows for each in progress]),
            "bytes": ("Their size, as files or as sent.", [each.size_bytes for each in progress]),
            "batches": ("Commits of the target.", [each.batches for each in progress]),
        }
        for name, (text, numbers) in counters.items():
            counter = CounterMetricFamily(f"{_PREFIX}_{name}", text, labels=_LABELS)
            for each, number in zip(progress, numbers, strict=True):
                counter.add_metric([each.topic, each.to], number)
            yield counter
        retries = CounterMetricFamily(f"{_PREFIX}_retries", "Rounds that were tried again.")
        retries.add_metric([], self._retries)
        yield retries
        lag = GaugeMetricFamily(f"{_PREFIX}_lag_offsets", "Offsets to land.", labels=_LABELS)
        at_end = GaugeMetricFamily(
            f"{_PREFIX}_at_end_timestamp_seconds",
            "When the target was last at the end of the log.",
            labels=_LABELS,
        )
        position = GaugeMetricFamily(
            f"{_PREFIX}_position_offset",
            "The first offset that the target does not hold.",
            labels=(*_LABELS, "partition"),
        )
        for each in progress:
            lag.add_metric([each.topic, each.to], each.lag)
            if each.topic in self._at_end_s:
                at_end.add_metric([each.topic, each.to], self._at_end_s[each.topic])
            for partition, offset in sorted(each.position.items()):
                position.add_metric([each.topic, each.to, str(partition)], offset)
        yield from (lag, at_end, position)
