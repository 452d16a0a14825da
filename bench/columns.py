"""The columnar client beside confluent-kafka, each on one core, from the same Apache Kafka.

The broker is not ours on purpose: only the clients differ. It is kept on the other core.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import NamedTuple

from bench.brokers import kafka
from bench.harness import Comparison, Metric, Metrics, Options, compare
from bench.reading import Reader, fill, pinned

_CPU = Metric("cpu", "CPU s/million records", higher_is_better=False)


class Scenario(NamedTuple):
    name: str
    record_bytes: int
    topic_bytes: int
    metric: Metric


SCENARIOS = (
    Scenario("100 B", 100, 256 << 20, Metric("rate", "records/s", target=8.0)),
    Scenario("1 KB", 1000, 512 << 20, Metric("rate", "MB/s", target=1.8)),
)


def run(options: Options) -> list[Comparison]:
    """Both sizes, both clients."""
    broker_core, client_core = sorted(os.sched_getaffinity(0))[:2]
    results = []
    with kafka(options) as broker, pinned(broker.pid, broker_core):
        for scenario in SCENARIOS:
            with contextlib.ExitStack() as stack:
                topic = stack.enter_context(broker.topic())
                records = fill(broker, topic, scenario.record_bytes, scenario.topic_bytes)
                sides = {}
                for name, kind in (("Drumlin's client", "drumlin"), ("confluent", "confluent")):
                    reader = Reader(kind, broker, topic, records, client_core)
                    stack.callback(reader.close)
                    sides[name] = _round(reader, records, scenario)
                results += compare(
                    "columns", scenario.name, [scenario.metric, _CPU], sides, options
                )
    return results


def _round(reader: Reader, records: int, scenario: Scenario) -> Callable[[], Metrics]:
    amount = records
    if scenario.metric.unit == "MB/s":
        amount = records * scenario.record_bytes // 1_000_000

    def measure() -> Metrics:
        reading = reader.read()
        return {"rate": amount / reading.seconds, "cpu": reading.cpu_seconds / records * 1e6}

    return measure
