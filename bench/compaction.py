"""How fast logs are compacted: the same topic under Drumlin's cleaner and under Kafka's.

Every round fills a new topic, hands it to the broker's cleaner, which has nothing else to do,
and checks what it has left. The rate is the one that the broker's own log states.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from bench.brokers import Broker, brokers
from bench.compacted_topics import CLEANER_SETTINGS, Contents, compacted_topic
from bench.harness import Comparison, Metric, Metrics, Options, Stopwatch, compare

RECORDS = 6_000_000
KEYS = 1_000_000
_ROUNDS_MAX = 5
_WARMUP_MAX = 2  # a round cleans a gigabyte: one is enough for most, two show it
_TARGETS = {"none": 3.0, "lz4": 2.0, "zstd": 2.0}


def run(options: Options) -> list[Comparison]:
    """Uncompressed, lz4 and zstd."""
    results = []
    fewer = dataclasses.replace(
        options,
        rounds=min(options.rounds, _ROUNDS_MAX),
        warmup=min(options.warmup, _WARMUP_MAX),
    )
    records, keys = (round(each * options.scale) for each in (RECORDS, KEYS))
    with brokers(options, CLEANER_SETTINGS) as (ours, theirs):
        for compression, target in _TARGETS.items():
            contents = Contents(records, keys, compression)
            metrics = (
                Metric("rate", "MiB/s", target=target),
                Metric("seconds", "s until done", higher_is_better=False, target=1 / target),
                Metric("cpu", "broker CPU s/GB", higher_is_better=False),
            )
            scenario = f"{records / 1e6:g} M records, {compression}"
            sides = {each.name: _round(each, options, contents) for each in (ours, theirs)}
            results += compare("compaction", scenario, metrics, sides, fewer)
    return results


def _round(broker: Broker, options: Options, contents: Contents) -> Callable[[], Metrics]:
    def measure() -> Metrics:
        with compacted_topic(broker, options, contents) as topic:
            with Stopwatch(broker.pid) as watch:
                rate = topic.clean()
            topic.verify()
            return {
                "rate": rate,
                "seconds": watch.seconds,
                "cpu": watch.cpu_seconds / topic.size_bytes * 1e9,
            }

    return measure
