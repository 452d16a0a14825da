"""Measures in the text format of Prometheus. The client library is loaded when it is first used."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from drumlin.broker.loop.measures import INFINITE, SUM, Kind, Measure

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


def write_metrics(measures: Iterable[Measure]) -> bytes:
    """The page that Prometheus scrapes. Blocks; the first call takes longer."""
    from prometheus_client.exposition import generate_latest
    from prometheus_client.registry import CollectorRegistry

    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(measures))
    return generate_latest(registry)


def _histogram(measure: Measure) -> Metric:
    from prometheus_client.metrics_core import Metric

    family = Metric(measure.name, measure.documentation, measure.kind.value)
    for values, value in measure.samples:
        labels, bound = dict(zip(measure.labels, values[:-1], strict=False)), values[-1]
        if bound == SUM:
            family.add_sample(f"{measure.name}_sum", labels, value)
            continue
        family.add_sample(f"{measure.name}_bucket", {**labels, "le": bound}, value)
        if bound == INFINITE:
            family.add_sample(f"{measure.name}_count", labels, value)
    return family


class _Collector:
    """The collector that the library calls for metrics."""

    def __init__(self, measures: Iterable[Measure]) -> None:
        self._measures = measures

    def collect(self) -> Iterator[Metric]:
        from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily

        families = {Kind.GAUGE: GaugeMetricFamily, Kind.COUNTER: CounterMetricFamily}
        for measure in self._measures:
            if measure.kind is Kind.HISTOGRAM:
                yield _histogram(measure)
                continue
            family = families[measure.kind](
                measure.name, measure.documentation, labels=measure.labels
            )
            for sample in measure.samples:
                family.add_metric(sample.labels, sample.value)
            yield family
