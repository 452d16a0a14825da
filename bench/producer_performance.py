"""Kafka's own ProducerPerformance, with its defaults, against both brokers."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable

from bench.brokers import Broker, brokers
from bench.harness import Comparison, Metric, Metrics, Options, Stopwatch, compare
from rig.jvm.jars import java
from rig.servers.apache_kafka import kafka_classpath

_BYTES_PER_SECOND = 100_000_000  # about what to expect: how many records make a round
_WARMUP_SHARE = 5
_RATE = re.compile(r"([\d.]+) records/sec \(([\d.]+) MB/sec\), ([\d.]+) ms avg latency")


def run(options: Options) -> list[Comparison]:
    """Two sizes of records against both brokers."""
    results = []
    with brokers(options) as (ours, theirs):
        for record_bytes in (100, 1000):
            metrics = (
                Metric("rate", "records/s", target=1.0),
                Metric("latency", "ms average latency", higher_is_better=False),
                Metric("cpu", "broker CPU s/GB", higher_is_better=False),
            )
            sides = {each.name: _round(each, record_bytes, options) for each in (ours, theirs)}
            results += compare("ProducerPerformance", f"{record_bytes} B", metrics, sides, options)
    return results


def _round(broker: Broker, record_bytes: int, options: Options) -> Callable[[], Metrics]:
    records = int(options.seconds * _BYTES_PER_SECOND / (record_bytes + 70))

    def measure() -> Metrics:
        with broker.topic() as topic, Stopwatch(broker.pid) as watch:
            said = _produce(broker, topic, records, record_bytes)
        rates = _RATE.findall(said)
        if not rates:
            raise RuntimeError(f"ProducerPerformance against {broker.name} said: {said[-500:]}")
        rate, _, latency = map(float, rates[-1])
        gigabytes = records * (1 + 1 / _WARMUP_SHARE) * record_bytes / 1e9
        return {"rate": rate, "latency": latency, "cpu": watch.cpu_seconds / gigabytes}

    return measure


def _produce(broker: Broker, topic: str, records: int, record_bytes: int) -> str:
    warmup = records // _WARMUP_SHARE
    command = [java(), "-Xmx512M", "-cp", kafka_classpath()]
    command += ["org.apache.kafka.tools.ProducerPerformance", "--bootstrap-server", broker.address]
    command += ["--topic", topic, "--throughput", "-1", "--record-size", str(record_bytes)]
    command += ["--num-records", str(records + warmup), "--warmup-records", str(warmup)]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=600).stdout
