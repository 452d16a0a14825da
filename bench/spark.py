"""`spark.read.format("drumlin")` beside Spark's own Kafka connector, from the same Apache Kafka.

Warm: two sessions on `local[2]` that are asked in turns. Ceiling: the same query on batches that
lie ready, see `prebuilt`. Cold: a whole process, from its start to the answer of its first query.
The topics are large enough that planning the query, which takes both a third of a second, does
not decide.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from bench.brokers import Broker, kafka
from bench.harness import Comparison, Metric, Metrics, Options, compare
from bench.reading import Reader, fill

_SCRIPT = Path(__file__).parents[1] / "script" / "spark-kafka-jars"
_KINDS = {"Drumlin's source": "spark-drumlin", "Spark's connector": "spark-kafka"}
_COLD_ROUNDS = 3


class Scenario(NamedTuple):
    name: str
    record_bytes: int
    topic_bytes: int
    target: float


SCENARIOS = (
    Scenario("100 B", 100, 1 << 30, 4.0),
    Scenario("1 KB", 1000, 1 << 30, 2.0),
)


def run(options: Options) -> list[Comparison]:
    """Both sizes: both sources, warm and cold, and how far ours is from what Spark can take."""
    os.environ["SPARK_KAFKA_JARS"] = _connector_jars()
    results = []
    with kafka(options) as broker:
        for scenario in SCENARIOS:
            with broker.topic() as topic:
                records = fill(broker, topic, scenario.record_bytes, scenario.topic_bytes)
                results += _warm(broker, topic, records, scenario, options)
                results += _ceiling(broker, topic, records, scenario, options)
                results += _cold(broker, topic, records, scenario, options)
    return results


def _connector_jars() -> str:
    directory = subprocess.run(
        [_SCRIPT], capture_output=True, text=True, check=True, timeout=600
    ).stdout.strip()
    return ",".join(str(jar) for jar in Path(directory).glob("*.jar"))


def _warm(
    broker: Broker, topic: str, records: int, scenario: Scenario, options: Options
) -> list[Comparison]:
    metric = Metric("rate", "records/s", target=scenario.target)
    readers = {name: (kind, topic) for name, kind in _KINDS.items()}
    return _in_turns("Spark read, warm", broker, readers, records, scenario, metric, options)


def _ceiling(
    broker: Broker, topic: str, records: int, scenario: Scenario, options: Options
) -> list[Comparison]:
    readers = {
        "Drumlin's source": ("spark-drumlin", topic),
        "batches that lie ready": ("spark-prebuilt", f"{records}x{scenario.record_bytes}"),
    }
    metric = Metric("rate", "records/s")
    return _in_turns("Spark read, ceiling", broker, readers, records, scenario, metric, options)


def _in_turns(
    bench: str,
    broker: Broker,
    readers: Mapping[str, tuple[str, str]],
    records: int,
    scenario: Scenario,
    metric: Metric,
    options: Options,
) -> list[Comparison]:
    """Compare two sessions, each a kind of reader and the topic that it reads."""
    with contextlib.ExitStack() as stack:
        sides = {}
        for name, (kind, topic) in readers.items():
            reader = Reader(kind, broker, topic, records)
            stack.callback(reader.close)
            sides[name] = _warm_round(reader, records)
        return compare(bench, scenario.name, [metric], sides, options)


def _warm_round(reader: Reader, records: int) -> Callable[[], Metrics]:
    return lambda: {"rate": records / reader.read().seconds}


def _cold(
    broker: Broker, topic: str, records: int, scenario: Scenario, options: Options
) -> list[Comparison]:
    metric = Metric("seconds", "s to the first answer", higher_is_better=False)
    sides = {name: _cold_round(kind, broker, topic, records) for name, kind in _KINDS.items()}
    fewer = dataclasses.replace(options, rounds=min(options.rounds, _COLD_ROUNDS), warmup=0)
    return compare("Spark read, cold", scenario.name, [metric], sides, fewer)


def _cold_round(kind: str, broker: Broker, topic: str, records: int) -> Callable[[], Metrics]:
    def measure() -> Metrics:
        started = time.perf_counter()
        with contextlib.closing(Reader(kind, broker, topic, records)) as reader:
            reader.read()
            return {"seconds": time.perf_counter() - started}

    return measure
