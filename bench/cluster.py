"""Three brokers and topics of three replicas, beside three Apache Kafkas on the same machine.

Rows: `rate` (Java's producer, acks=all, 12 partitions), `latency` (2,000 records/s), `failover` (a
leader of 1,000 partitions is killed), `restart` (of a broker that stops in order), `return` (of one
that was away for 1 GB), `crowd` (`--brokers 2`, beside a single Kafka). All brokers and the load
share the machine's cores: their number is told.
"""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence

from confluent_kafka import Producer

from bench import cluster_crowd
from bench.catching_up import Growth
from bench.clusters import SESSION_TIMEOUT_MS, Cluster, clusters
from bench.harness import Comparison, Metric, Metrics, Options, compare
from rig.jvm.jars import java
from rig.servers.apache_kafka import kafka_classpath

_PARTITIONS = 12
_MANY = 1000
_VICTIM = 1
_FEW = 3
#: About what to expect: how many records make a round.
_BYTES_PER_SECOND = 40_000_000
_STEADY_PER_SECOND = 2000
_STEADY_S = 15
_AWAY_BYTES = 1_000_000_000
_RECORD_BYTES = 1000
_CROWD = "crowd"
_LINE = re.compile(r"([\d.]+) records/sec .*?([\d.]+) ms 50th, .*?([\d.]+) ms 99th", re.DOTALL)


def run(options: Options) -> list[Comparison]:
    """Every row that was asked for, each against both clusters."""
    print(f"cluster: {os.cpu_count()} cores for all brokers and the load", file=sys.stderr)
    rows: dict[str, Callable[[Sequence[Cluster], Options], list[Comparison]]] = {
        "rate": _rates,
        "latency": _latency,
        "failover": _failover,
        "restart": _restart,
        "return": _return,
    }
    wanted = options.rows or (*rows, _CROWD)
    results = cluster_crowd.run(options) if _CROWD in wanted else []
    if of_clusters := [each for each in wanted if each != _CROWD]:
        with clusters(options) as both:
            for name in of_clusters:
                results += rows[name](both, options)
    return results


# -- produce -----------------------------------------------------------------------------


def _rates(both: Sequence[Cluster], options: Options) -> list[Comparison]:
    results = []
    metrics = (
        Metric("rate", "records/s", target=1.5),
        Metric("cpu", "CPU s/GB of all brokers", higher_is_better=False, target=1.0),
    )
    for record_bytes in (100, 1000):
        count = int(options.seconds * _BYTES_PER_SECOND / (record_bytes + 300))
        sides = {each.name: _rate_of(each, record_bytes, count) for each in both}
        scenario = f"acks=all, RF 3, {record_bytes} B"
        results += compare("cluster", scenario, metrics, sides, options)
    return results


def _rate_of(cluster: Cluster, record_bytes: int, count: int) -> Callable[[], Metrics]:
    def measure() -> Metrics:
        with cluster.topic(_PARTITIONS) as topic:
            before = cluster.cpu_seconds
            rate, _, _ = _perform(cluster, topic, count, record_bytes, -1)
            cpu_s = cluster.cpu_seconds - before
        return {"rate": rate, "cpu": cpu_s / (1.2 * count * record_bytes / 1e9)}

    return measure


def _latency(both: Sequence[Cluster], options: Options) -> list[Comparison]:
    metrics = (
        Metric("p50", "ms", higher_is_better=False, limit=10.0),
        Metric("p99", "ms", higher_is_better=False, target=1.0),
    )

    def side(cluster: Cluster) -> Callable[[], Metrics]:
        def measure() -> Metrics:
            count = _STEADY_S * _STEADY_PER_SECOND
            with cluster.topic(_PARTITIONS) as topic:
                _, p50, p99 = _perform(cluster, topic, count, _RECORD_BYTES, _STEADY_PER_SECOND)
            return {"p50": p50, "p99": p99}

        return measure

    sides = {each.name: side(each) for each in both}
    return compare("cluster", "acks=all, RF 3, 2,000 records/s", metrics, sides, options)


def _perform(
    cluster: Cluster, topic: str, count: int, record_bytes: int, throughput: int
) -> tuple[float, float, float]:
    """Records a second, median and 99th percentile of latency in ms, by Kafka's own tool."""
    warmup = count // 5
    command = [java(), "-Xmx512M", "-cp", kafka_classpath()]
    command += ["org.apache.kafka.tools.ProducerPerformance", "--bootstrap-server", cluster.address]
    command += ["--topic", topic, "--throughput", str(throughput)]
    command += ["--record-size", str(record_bytes), "--num-records", str(count + warmup)]
    command += ["--warmup-records", str(warmup), "--command-property", "acks=all"]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600).stdout
    found = _LINE.findall(said)
    if not found:
        raise RuntimeError(f"ProducerPerformance against {cluster.name} said: {said[-500:]}")
    rate, p50, p99 = found[-1]
    return float(rate), float(p50), float(p99)


# -- brokers that go ---------------------------------------------------------------------


def _failover(both: Sequence[Cluster], options: Options) -> list[Comparison]:
    metrics = (
        Metric("took", "s until all are led", higher_is_better=False),
        Metric("missed", "s since it was missed", higher_is_better=False, limit=2.0),
    )

    def side(cluster: Cluster) -> Callable[[], Metrics]:
        def measure() -> Metrics:
            with cluster.topic(_MANY) as topic:
                failover = cluster.kill(_VICTIM, topic)
                cluster.brokers[_VICTIM].start()
                cluster.await_in_sync(topic)
            return {"took": failover.took_s, "missed": failover.missed_s}

        return measure

    sides = {each.name: side(each) for each in both}
    scenario = f"a broker killed, {_MANY:,} partitions, session {SESSION_TIMEOUT_MS / 1000:g} s"
    return compare("cluster", scenario, metrics, sides, _few(options))


def _restart(both: Sequence[Cluster], options: Options) -> list[Comparison]:
    metric = Metric("longest", "ms that a record waited", higher_is_better=False, limit=500.0)

    def side(cluster: Cluster) -> Callable[[], Metrics]:
        def measure() -> Metrics:
            with cluster.topic(_PARTITIONS) as topic:
                waits = _SteadyProducer(cluster, topic)
                time.sleep(3)
                cluster.brokers[_VICTIM].terminate()
                time.sleep(1)
                cluster.brokers[_VICTIM].start()
                cluster.await_in_sync(topic)
                return {"longest": waits.end()}

        return measure

    sides = {each.name: side(each) for each in both}
    return compare("cluster", "a broker restarted in order", (metric,), sides, _few(options))


class _SteadyProducer:
    """Sends 500 records a second, acks=all, and notes the longest wait."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        settings = {"bootstrap.servers": cluster.address, "acks": "all", "linger.ms": 0}
        self._producer = Producer(settings)
        self._topic = topic
        self._longest_s = 0.0
        self._is_ending = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._is_ending.is_set():
            sent_at = time.monotonic()
            self._producer.produce(
                self._topic,
                b"x" * 100,
                partition=number % _PARTITIONS,
                on_delivery=self._delivery_of(sent_at),
            )
            number += 1
            self._producer.poll(0.002)
        self._producer.flush(60)

    def _delivery_of(self, sent_at: float) -> Callable[[object, object], None]:
        def delivered(error: object, _: object) -> None:
            if error is not None:
                raise RuntimeError(f"a record was lost: {error}")
            self._longest_s = max(self._longest_s, time.monotonic() - sent_at)

        return delivered

    def end(self) -> float:
        self._is_ending.set()
        self._thread.join()
        return 1000 * self._longest_s


def _return(both: Sequence[Cluster], options: Options) -> list[Comparison]:
    metrics = (
        Metric("rate", "MB/s in sync again"),
        Metric("with_start", "MB/s, its start included"),
    )
    amount = int(_AWAY_BYTES * options.scale)

    def side(cluster: Cluster) -> Callable[[], Metrics]:
        def measure() -> Metrics:
            with cluster.topic(_PARTITIONS) as topic:
                victim = cluster.brokers[_VICTIM]
                victim.terminate()
                _perform(cluster, topic, int(amount / 1.2 / _RECORD_BYTES), _RECORD_BYTES, -1)
                begun = time.monotonic()
                with Growth(victim.data, topic) as growth:
                    victim.start()
                    cluster.await_in_sync(topic)
                    ended = time.monotonic()
            return {
                "rate": amount / 1e6 / (ended - growth.began_at),
                "with_start": amount / 1e6 / (ended - begun),
            }

        return measure

    sides = {each.name: side(each) for each in both}
    scenario = f"a broker back after {amount / 1e9:g} GB"
    return compare("cluster", scenario, metrics, sides, _few(options))


def _few(options: Options) -> Options:
    """What takes most of a minute a round, and has no use for a warm-up."""
    return dataclasses.replace(options, rounds=min(options.rounds, _FEW), warmup=0)
