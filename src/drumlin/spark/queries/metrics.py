"""The metrics of streaming queries for Prometheus, for each query and what it reads."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Final

from drumlin.spark.queries.query_progress import QueryProgress

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

_PREFIX: Final = "drumlin_query"
_OF_SOURCE: Final = ("query", "source")
_OF_TOPIC: Final = (*_OF_SOURCE, "topic")
_OF_PARTITION: Final = (*_OF_TOPIC, "partition")


class QueryMetrics:
    """The last progress of each running query. Spark's thread tells it, a server's threads read."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: dict[str, QueryProgress] = {}  # by the id of the run
        self._batches: Counter[tuple[str, ...]] = Counter()
        self._rows: Counter[tuple[str, ...]] = Counter()
        self._offsets: Counter[tuple[str, ...]] = Counter()

    def tell(self, now: QueryProgress) -> None:
        """Add a batch that is complete."""
        query = now.name or now.query_id
        with self._lock:
            self._last[now.run_id] = now
            self._batches[query,] += 1
            for source in now.sources:
                self._rows[query, str(source.source)] += source.rows
            for each in now.partitions:
                self._offsets[query, str(each.source), each.topic] += each.offsets or 0

    def end(self, run_id: str) -> None:
        """Forget a query that has ended."""
        with self._lock:
            last = self._last.pop(run_id, None)
            if last is None:
                return
            query = last.name or last.query_id
            for counter in (self._batches, self._rows, self._offsets):
                for labels in [each for each in counter if each[0] == query]:
                    del counter[labels]

    def collect(self) -> Iterator[Metric]:
        """The metrics, in the form of `prometheus_client`."""
        with self._lock:
            return iter([*self._counters(), *self._gauges()])

    def _counters(self) -> Iterator[Metric]:
        from prometheus_client.metrics_core import CounterMetricFamily

        for name, text, labels, counter in (
            ("batches", "Batches that are complete.", ("query",), self._batches),
            ("rows", "Rows that were read.", _OF_SOURCE, self._rows),
            (
                "offsets",
                "Offsets that were read, from the second batch on.",
                _OF_TOPIC,
                self._offsets,
            ),
        ):
            family = CounterMetricFamily(f"{_PREFIX}_{name}", text, labels=labels)
            for values, number in sorted(counter.items()):
                family.add_metric(values, number)
            yield family

    def _gauges(self) -> Iterator[Metric]:
        from prometheus_client.metrics_core import GaugeMetricFamily

        def gauge(name: str, text: str, labels: tuple[str, ...]) -> GaugeMetricFamily:
            return GaugeMetricFamily(f"{_PREFIX}_{name}", text, labels=labels)

        at = gauge("batch_timestamp_seconds", "When the last batch began.", ("query",))
        duration = gauge("batch_duration_seconds", "How long the last batch took.", ("query",))
        rate = gauge("rows_per_second", "Rows per second of the last batch.", _OF_SOURCE)
        lag = gauge("lag_offsets", "Offsets to read, when the last batch began.", _OF_PARTITION)
        position = gauge("position_offset", "The first offset not read yet.", _OF_PARTITION)
        for now in self._last.values():
            query = now.name or now.query_id
            at.add_metric([query], datetime.fromisoformat(now.timestamp).timestamp())
            duration.add_metric([query], now.batch_duration_ms / 1000)
            for source in now.sources:
                rate.add_metric([query, str(source.source)], source.processed_rows_per_s)
            for each in now.partitions:
                labels = [query, str(each.source), each.topic, str(each.partition)]
                position.add_metric(labels, each.end_offset)
                if each.behind is not None:
                    lag.add_metric(labels, each.behind)
        yield from (at, duration, rate, lag, position)
