"""The metrics of a capture's progress, for Prometheus."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from drumlin.capture.errors import CaptureRefused
from drumlin.capture.running.progress import Phase, Progress
from drumlin.metrics_server import metrics_served

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

_PREFIX: Final = "drumlin_capture"


@contextlib.contextmanager
def served(address: str | None, name: str, progress: Progress) -> Iterator[None]:
    """Serve the progress of the capture `name` at HOST:PORT while the block runs; None: do not.

    Raises:
        CaptureRefused: the address is invalid, or cannot be listened on.
    """
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(metrics_served(address, _Collector(name, progress)))
        except ValueError as error:
            raise CaptureRefused(str(error)) from None
        yield


class _Collector:
    """The collector that the library calls for each request."""

    def __init__(self, name: str, progress: Progress) -> None:
        self._name, self._progress = name, progress

    def collect(self) -> Iterator[Metric]:
        from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily

        found = self._progress
        now_ms = time.time_ns() // 1_000_000
        counters = {
            "records": ("Records written to the topics.", found.records),
            "transactions": ("Transactions of the database in the topics.", found.transactions),
            "commits": ("Transactions of the log.", found.commits),
            "restarts": ("Connections that failed, and were made again.", found.restarts),
        }
        gauges = {
            "lag_seconds": ("For how long the topics have lacked a change.", found.lag_s(now_ms)),
            "lag_bytes": ("The WAL that the topics do not have yet.", found.lag_bytes),
            "kept_wal_bytes": ("The WAL that the server keeps for the slot.", found.kept_bytes),
            "unread_tables": ("Tables that are not read completely.", found.unread_tables),
        }
        for name, (text, number) in counters.items():
            counter = CounterMetricFamily(f"{_PREFIX}_{name}", text, labels=["name"])
            counter.add_metric([self._name], number)
            yield counter
        for name, (text, value) in gauges.items():
            gauge = GaugeMetricFamily(f"{_PREFIX}_{name}", text, labels=["name"])
            if value is not None:
                gauge.add_metric([self._name], value)
            yield gauge
        phases = GaugeMetricFamily(
            f"{_PREFIX}_phase", "1 for what the capture is doing.", labels=["name", "phase"]
        )
        for phase in Phase:
            phases.add_metric([self._name, phase.value], float(found.phase is phase))
        yield phases
