"""Latency of single records while the broker's cleaner is at full speed on other topics.

The load is that of `latency`; it is compared with itself, with and without a cleaner that works.
A process of its own gives the cleaner its topics, so that measuring is not disturbed by it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import multiprocessing
import time
from collections.abc import Callable

from bench.brokers import Broker, brokers
from bench.compacted_topics import CLEANER_SETTINGS, CompactedTopic, Contents
from bench.compaction import KEYS, RECORDS
from bench.harness import Comparison, Metric, Metrics, Options, compare
from bench.latency import SETTLING_SECONDS, START_SECONDS, measure_latencies, p99_ms
from drumlin import connect
from rig.waiting import wait_until

_TOPICS = 3  # so much that the cleaner is not done before the measurement is
_LIMIT = 1.5
_PATIENCE_S = 300
_ROUNDS_MAX = 5


def run(options: Options) -> list[Comparison]:
    """Both brokers, each beside itself; the limit is for ours."""
    results = []
    fewer = dataclasses.replace(options, rounds=min(options.rounds, _ROUNDS_MAX), warmup=0)
    with brokers(options, CLEANER_SETTINGS) as sides:
        for broker in sides:
            target = _LIMIT if broker.name == "Drumlin" else None
            metrics = [
                Metric(name, f"ms p99, {text}", higher_is_better=False, target=target)
                for name, text in (("produce", "produce"), ("end_to_end", "end to end"))
            ]
            # One of each that does not count: the first topics of a broker are its slowest.
            turns = {
                "while cleaning": _while_cleaning(broker, options),
                "without": _without(broker, options),
            }
            for turn in turns.values():
                turn()
            results += compare("compaction_latency", broker.name, metrics, turns, fewer)
    return results


def _without(broker: Broker, options: Options) -> Callable[[], Metrics]:
    def measure() -> Metrics:
        with broker.topic() as topic:
            latencies = measure_latencies(broker, topic, options.seconds, wants_produce=True)
        return {name: p99_ms(each) for name, each in latencies._asdict().items()}

    return measure


def _while_cleaning(broker: Broker, options: Options) -> Callable[[], Metrics]:
    contents = Contents(round(RECORDS * options.scale), round(KEYS * options.scale))
    plain = _without(broker, options)

    def measure() -> Metrics:
        with contextlib.ExitStack() as stack:
            topics = []
            for _ in range(_TOPICS):
                topics.append(CompactedTopic(broker, options, contents))
                stack.callback(topics[-1].delete)
            process = multiprocessing.get_context("spawn").Process(
                target=_begin, args=(broker.address, [each.name for each in topics]), daemon=True
            )
            process.start()
            measured = plain()
            process.join()
            if all(each.cleaning_rate() for each in topics):
                raise RuntimeError("cleaned before latency was measured: a larger --scale, please")
            for each in topics:
                wait_until(each.cleaning_rate, f"{broker.name} to clean", _PATIENCE_S)
        return measured

    return measure


def _begin(address: str, topics: list[str]) -> None:
    """Runs in a process of its own: give the topics to the cleaner as the load has settled."""
    with connect(address) as client:
        time.sleep(START_SECONDS + SETTLING_SECONDS / 2)
        for topic in topics:
            client.set_topic_configs(topic, {"cleanup.policy": "compact"})
