"""`spark.read.format("drumlin")` beside Spark's own Kafka connector, from the same broker.

Warm: two sessions on `local[2]` that are asked in turns; the connector with its defaults, and with
settings that spare it most of its requests. Ceiling: the same query on batches that lie ready, see
`prebuilt`. Cold: a whole process, from its start to the answer of its first query. The topics are
large enough that planning the query, which takes both a third of a second, does not decide.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from bench.brokers import Broker, drumlin, kafka
from bench.harness import Comparison, Metric, Metrics, Options, compare, cpu_seconds
from bench.reading import Reader, fill_as_clients_do
from bench.report import Curve, write_curves
from rig.jvm.spark_connector import connector_jars

_COLD_ROUNDS = 3
_DEFAULTS = ("Spark's connector", "spark-kafka")
_TUNED = ("Spark's connector, tuned", "spark-kafka-tuned")
_GROWTH_GB = (1, 2, 4, 8)
_GROWTH_PARTITIONS = (2, 8, 32)


class Scenario(NamedTuple):
    """One topic and one way of ours to read it; `target` beside the defaults, and the tuned."""

    name: str
    target: float | None
    tuned_target: float | None
    kind: str = "spark-drumlin"
    record_bytes: int = 100
    partitions: int = 1
    codec: str = "none"
    topic_bytes: int = 1 << 30


_COLUMNS, _MAP = "spark-drumlin-columns", "spark-drumlin-map"
_CODECS = ("gzip", "snappy", "lz4", "zstd")

SCENARIOS = {
    "100b": Scenario("100 B", 4.0, 2.0),
    "100b_8": Scenario("100 B, 8 partitions", 4.0, 2.0, partitions=8),
    "columns": Scenario("100 B, the query's columns", 5.0, 2.5, _COLUMNS),
    "columns_8": Scenario("100 B, 8 partitions, the query's columns", 5.0, 2.5, _COLUMNS, 100, 8),
    "1kb": Scenario("1 KB", 2.5, 1.8, record_bytes=1000),
    "1kb_8": Scenario("1 KB, 8 partitions", 2.5, 1.8, record_bytes=1000, partitions=8),
    "1kb_columns": Scenario("1 KB, the query's columns", 2.5, 1.8, _COLUMNS, 1000),
    "map": Scenario("100 B, map_batches", 12.0, 6.0, _MAP),
    **{each: Scenario(f"100 B, {each}", 2.0, None, codec=each) for each in _CODECS},
}


def run(options: Options) -> list[Comparison]:
    """All rows, or those that are chosen: from Apache Kafka, and two from Drumlin."""
    os.environ["SPARK_KAFKA_JARS"] = connector_jars()
    results: list[Comparison] = []
    with kafka(options) as broker:
        for row, scenario in SCENARIOS.items():
            if _is_chosen(row, options):
                results += _warm(broker, scenario, options)
        for row, measure in (("ceiling", _ceiling), ("cold", _cold), ("growth", _growth)):
            if _is_chosen(row, options):
                results += measure(broker, options)
        for partitions in (1, 64):
            if _is_chosen(f"batches_{partitions}", options):
                results += _micro_batches(broker, partitions, options)
    if _is_chosen("drumlin", options):
        with drumlin(options) as broker:
            for row in ("100b", "1kb"):
                name = f"{SCENARIOS[row].name}, from Drumlin"
                results += _warm(broker, SCENARIOS[row]._replace(name=name), options)
    return results


def _is_chosen(row: str, options: Options) -> bool:
    return not options.rows or row in options.rows


@contextlib.contextmanager
def _topic(broker: Broker, scenario: Scenario, options: Options) -> Iterator[tuple[str, int]]:
    """A full topic, and how many records it has."""
    records = max(1000, round(scenario.topic_bytes * options.scale / scenario.record_bytes))
    with broker.topic(scenario.partitions) as topic:
        fill_as_clients_do(
            broker, topic, scenario.record_bytes, records, scenario.partitions, scenario.codec
        )
        yield topic, records


def _metrics(target: float | None) -> list[Metric]:
    """The rate, and what it costs: processor time of each part, for each record."""
    parts = [Metric(each, f"ns of {each}", higher_is_better=False) for each in ("JVM", "Python")]
    broker = Metric("broker", "ns of the broker", higher_is_better=False)
    return [Metric("rate", "records/s", target=target), *parts, broker]


def _warm(broker: Broker, scenario: Scenario, options: Options) -> list[Comparison]:
    results = []
    with _topic(broker, scenario, options) as (topic, records):
        for theirs, target in ((_DEFAULTS, scenario.target), (_TUNED, scenario.tuned_target)):
            if target is not None:
                readers = [("Drumlin's source", scenario.kind, topic), (*theirs, topic)]
                name = scenario.name if theirs is _DEFAULTS else f"{scenario.name}; they are tuned"
                metrics = _metrics(target)
                results += _in_turns("Spark read", broker, readers, records, name, metrics, options)
    return results


def _ceiling(broker: Broker, options: Options) -> list[Comparison]:
    results = []
    for scenario in (SCENARIOS["100b"], SCENARIOS["1kb"]):
        with _topic(broker, scenario, options) as (topic, records):
            ready = f"{records}x{scenario.record_bytes}"
            readers = [
                ("Drumlin's source", "spark-drumlin", topic),
                ("batches that lie ready", "spark-prebuilt", ready),
            ]
            name, metrics = scenario.name, _metrics(None)
            results += _in_turns("Spark ceiling", broker, readers, records, name, metrics, options)
    return results


def _growth(broker: Broker, options: Options) -> list[Comparison]:
    """How the rates stay with the size of the topic, and with its partitions; drawn."""
    plain = SCENARIOS["100b"]._replace(target=1.0, tuned_target=None)
    by_size = [
        plain._replace(name=f"100 B, {each * options.scale:g} GB", topic_bytes=each << 30)
        for each in _GROWTH_GB
    ]
    by_partitions = [
        plain._replace(name=f"100 B, {each} partitions", partitions=each)
        for each in _GROWTH_PARTITIONS
    ]
    sizes = [_warm(broker, each, options) for each in by_size]
    partitions = [_warm(broker, each, options) for each in by_partitions]
    options.output.mkdir(parents=True, exist_ok=True)
    gigabytes = [each * options.scale for each in _GROWTH_GB]
    write_curves(
        options.output / "spark.png",
        "Reading records of 100 B",
        [
            Curve("topic in GB, one partition", gigabytes, [each[0] for each in sizes]),
            Curve(
                f"partitions, {options.scale:g} GB",
                _GROWTH_PARTITIONS,
                [each[0] for each in partitions],
            ),
        ],
    )
    return [comparison for each in sizes + partitions for comparison in each]


def _micro_batches(broker: Broker, partitions: int, options: Options) -> list[Comparison]:
    """Streams of 40 batches of 1,000 records; seconds of a batch, the query's start included.

    Beside the connector, and beside batches that lie ready: what Spark takes for a source in
    Python that does nothing.
    """
    batches = max(3, round(40 * options.scale))
    goal = Metric("seconds", "s a batch", higher_is_better=False, target=1.2)
    with broker.topic(partitions) as topic:
        records = fill_as_clients_do(broker, topic, 100, 1000 * batches, partitions, "none")
        ready = ("batches that lie ready", "batches-prebuilt", f"{records}x100")
        results = []
        for bench, (name, kind, source), metric in (
            ("Spark micro-batches", (_DEFAULTS[0], "batches-kafka", topic), goal),
            ("Spark ceiling, micro-batches", ready, dataclasses.replace(goal, target=None)),
        ):
            with contextlib.ExitStack() as stack:
                sides = {}
                for side, side_kind, side_topic in (
                    ("Drumlin's source", "batches-drumlin", topic),
                    (name, kind, source),
                ):
                    reader = Reader(side_kind, broker, side_topic, records)
                    stack.callback(reader.close)
                    sides[side] = _batch_round(reader, batches)
                scenario = f"1,000 records of {partitions} partitions"
                results += compare(bench, scenario, [metric], sides, options)
        return results


def _batch_round(reader: Reader, batches: int) -> Callable[[], Metrics]:
    return lambda: {"seconds": reader.read().seconds / batches}


def _in_turns(
    bench: str,
    broker: Broker,
    readers: Sequence[tuple[str, str, str]],
    records: int,
    scenario: str,
    metrics: Sequence[Metric],
    options: Options,
) -> list[Comparison]:
    """Compare two sessions, each with its name, a kind of reader and the topic that it reads."""
    with contextlib.ExitStack() as stack:
        sides = {}
        for name, kind, topic in readers:
            reader = Reader(kind, broker, topic, records)
            stack.callback(reader.close)
            sides[name] = _warm_round(reader, broker, records)
        return compare(bench, scenario, metrics, sides, options)


def _warm_round(reader: Reader, broker: Broker, records: int) -> Callable[[], Metrics]:
    def measure() -> Metrics:
        before = cpu_seconds(broker.pid)
        reading = reader.read()
        spent = cpu_seconds(broker.pid) - before
        python = reading.python_seconds + reading.cpu_seconds
        return {
            "rate": records / reading.seconds,
            "JVM": reading.java_seconds / records * 1e9,
            "Python": python / records * 1e9,
            "broker": spent / records * 1e9,
        }

    return measure


def _cold(broker: Broker, options: Options) -> list[Comparison]:
    """Beside the connector, and beside batches that lie ready: what Spark takes to start Python."""
    goal = Metric("seconds", "s to the first answer", higher_is_better=False, target=0.7)
    fewer = dataclasses.replace(options, rounds=min(options.rounds, _COLD_ROUNDS), warmup=0)
    with _topic(broker, SCENARIOS["100b"], options) as (topic, records):
        ready = ("batches that lie ready", "spark-prebuilt", f"{records}x100")
        results = []
        for bench, (name, kind, source), metric in (
            ("Spark read, cold", (*_DEFAULTS, topic), goal),
            ("Spark ceiling, cold", ready, dataclasses.replace(goal, target=None)),
        ):
            sides = {
                "Drumlin's source": _cold_round("spark-drumlin", broker, topic, records),
                name: _cold_round(kind, broker, source, records),
            }
            results += compare(bench, "100 B", [metric], sides, fewer)
        return results


def _cold_round(kind: str, broker: Broker, topic: str, records: int) -> Callable[[], Metrics]:
    def measure() -> Metrics:
        started = time.perf_counter()
        with contextlib.closing(Reader(kind, broker, topic, records)) as reader:
            reader.read()
            return {"seconds": time.perf_counter() - started}

    return measure
