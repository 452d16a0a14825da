"""1,000, 5,000 and 20,000 partitions over three brokers, each with three replicas.

How soon they are created and in sync, what one that lies idle costs each broker in memory, how
soon a broker that was restarted is in sync again, how soon others lead after one was killed, and
how many messages ZooKeeper was sent for that. `--rows` has other numbers.
"""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Callable, Sequence

from bench.clusters import BROKERS, Cluster, clusters
from bench.harness import Comparison, Metric, Metrics, Options, compare
from bench.partitions import resident_bytes

_PARTITIONS = (1000, 5000, 20_000)
_VICTIM = 1
_METRICS = (
    Metric("created", "s until created and in sync", higher_is_better=False),
    Metric("memory", "KiB/partition and broker", higher_is_better=False),
    Metric("restarted", "s until in sync after a restart", higher_is_better=False),
    Metric("missed", "s until all are led, since it was missed", higher_is_better=False, limit=2.0),
    Metric("messages", "messages to ZooKeeper for that", higher_is_better=False),
)


def run(options: Options) -> list[Comparison]:
    """One comparison for each metric and number; each is measured once."""
    once = dataclasses.replace(options, rounds=1, warmup=0)
    results = []
    for number in map(int, options.rows or _PARTITIONS):
        partitions = round(number * options.scale)
        directory = options.directory / str(partitions)
        directory.mkdir()
        with clusters(dataclasses.replace(options, directory=directory)) as both:
            sides = {each.name: _side(each, partitions) for each in both}
            scenario = f"{partitions:,} partitions"
            results += compare("cluster_growth", scenario, _METRICS, sides, once)
    return results


def _side(cluster: Cluster, partitions: int) -> Callable[[], Metrics]:
    def measure() -> Metrics:
        empty = _memory(cluster)
        begun = time.monotonic()
        with cluster.topic(partitions) as topic:
            created_s = time.monotonic() - begun
            grown = [after - before for before, after in zip(empty, _memory(cluster), strict=True)]
            victim = cluster.brokers[_VICTIM]
            victim.terminate(timeout_s=120)
            begun = time.monotonic()
            victim.start(timeout_s=300)
            cluster.await_in_sync(topic, timeout_s=600)
            restarted_s = time.monotonic() - begun
            cluster.elect_preferred(topic)
            before = cluster.zookeeper_messages
            failover = cluster.kill(_VICTIM, topic)
            messages = cluster.zookeeper_messages - before
            victim.start(timeout_s=300)
            cluster.await_in_sync(topic, timeout_s=600)
        return {
            "created": created_s,
            "memory": statistics.median(grown) / 1024 / partitions,
            "restarted": restarted_s,
            "missed": failover.missed_s,
            "messages": messages,
        }

    return measure


def _memory(cluster: Cluster) -> Sequence[int]:
    assert len(cluster.brokers) == BROKERS
    return [resident_bytes(each.pid) for each in cluster.brokers.values()]
