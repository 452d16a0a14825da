"""`drumlin.spark.snapshot` beside Spark's usual ways to the last value of each key.

The usual ways read with Spark's own Kafka connector: `max_by` grouped by key, and the first row of
a window. All are asked in turns for the same answer, of the same topic: records of 100 B with keys
in random order, in eight partitions. `keys_…` and `growth` draw how time and the memory of all
Python workers go with the number of keys, and with the size of the log.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from bench.brokers import Broker, drumlin, kafka
from bench.compacted_topics import encoded_keys
from bench.harness import Comparison, Metric, Metrics, Options, compare
from bench.reading import Reader
from bench.report import Curve, write_curves
from bench.worker_memory import WorkerMemory
from drumlin.client.client import connect
from rig.jvm.spark_connector import connector_jars

_RECORDS, _KEYS = 20_000_000, 1_000_000
_KEY_COUNTS = (1_000_000, 5_000_000, 20_000_000)
_GROWTH_GB = (1, 2, 4, 8)
_RECORD_BYTES, _KEY_BYTES, _RECORD_OVERHEAD = 100, 16, 10
_PARTITIONS = 8
_PIECE_RECORDS = 200_000
_BATCH_BYTES = 64 << 10
_GROWTH_ROUNDS = 3

_MAX_BY = ("max_by over Spark's connector", "state-max-by")
_WINDOW = ("a window over Spark's connector", "state-window")
_OURS = ("drumlin.spark.snapshot", "state-drumlin")


class Contents(NamedTuple):
    """What a topic is filled with; each key about equally often."""

    records: int
    keys: int

    @property
    def gigabytes(self) -> float:
        return self.records * _RECORD_BYTES / 1e9


def run(options: Options) -> list[Comparison]:
    """All rows, or those that are chosen."""
    os.environ["SPARK_KAFKA_JARS"] = connector_jars()
    usual = Contents(round(_RECORDS * options.scale), round(_KEYS * options.scale))
    results: list[Comparison] = []
    with drumlin(options) as broker:
        for row, theirs in (("max_by", _MAX_BY), ("window", _WINDOW)):
            if _is_chosen(row, options):
                results += _beside(broker, theirs, usual, "from Drumlin", options)
        if _is_chosen("keys", options):
            results += _by_keys(broker, options)
        if _is_chosen("growth", options):
            results += _growth(broker, options)
    if _is_chosen("kafka", options):
        with kafka(options) as broker:
            for theirs in (_MAX_BY, _WINDOW):
                results += _beside(broker, theirs, usual, "from Apache Kafka", options)
    return results


def _is_chosen(row: str, options: Options) -> bool:
    return not options.rows or row in options.rows


@contextlib.contextmanager
def _topic(broker: Broker, contents: Contents) -> Iterator[str]:
    with broker.topic(_PARTITIONS) as topic:
        _fill(broker, topic, contents)
        yield topic


def _fill(broker: Broker, topic: str, contents: Contents) -> None:
    """Write the records; a key has one partition, as with any partitioner."""
    random = np.random.default_rng(7)
    size = _RECORD_BYTES - _KEY_BYTES - _RECORD_OVERHEAD
    with connect(broker.address) as client:
        for start in range(0, contents.records, _PIECE_RECORDS):
            count = min(_PIECE_RECORDS, contents.records - start)
            # A permutation of the keys over and over, so that all of them occur.
            numbers = (np.arange(start, start + count) * 7_919_999) % contents.keys
            letters = random.integers(97, 123, count * size, np.uint8)
            ends = pa.py_buffer(np.arange(count + 1, dtype=np.int32) * size)
            values = pa.Array.from_buffers(pa.binary(), count, [None, ends, pa.py_buffer(letters)])
            places = pa.array((numbers % _PARTITIONS).astype(np.int32))
            table = pa.table({"key": encoded_keys(numbers), "value": values, "place": places})
            client.append(table, topic, partition="place", batch_bytes=_BATCH_BYTES)


def _beside(
    broker: Broker, theirs: tuple[str, str], contents: Contents, where: str, options: Options
) -> list[Comparison]:
    metrics = [
        Metric("rate", "records/s", target=4.0),
        Metric("JVM", "ns of JVM", higher_is_better=False),
        Metric("Python", "ns of Python", higher_is_better=False),
    ]
    scenario = f"{contents.records / 1e6:g} M records, {contents.keys / 1e6:g} M keys, {where}"
    return _in_turns(broker, theirs, contents, scenario, metrics, options)


def _by_keys(broker: Broker, options: Options) -> list[Comparison]:
    """Time and memory against the number of keys; a log of the same size."""
    records = round(_RECORDS * options.scale)
    all_contents = [Contents(records, round(keys * options.scale)) for keys in _KEY_COUNTS]
    points = [_point(broker, each, f"{each.keys / 1e6:g} M keys", options) for each in all_contents]
    millions = [each.keys / 1e6 for each in all_contents]
    _draw("spark_state_keys", f"M keys in {records / 1e6:g} M records", millions, points, options)
    return [comparison for each in points for comparison in each]


def _growth(broker: Broker, options: Options) -> list[Comparison]:
    """Time and memory against the size of the log; a twentieth of the records are keys."""
    sizes = [round(each * options.scale * 1e9 / _RECORD_BYTES) for each in _GROWTH_GB]
    all_contents = [Contents(each, each * _KEYS // _RECORDS) for each in sizes]
    points = [_point(broker, each, f"{each.gigabytes:g} GB", options) for each in all_contents]
    gigabytes = [each.gigabytes for each in all_contents]
    _draw("spark_state_growth", "topic in GB", gigabytes, points, options)
    return [comparison for each in points for comparison in each]


def _point(broker: Broker, contents: Contents, scenario: str, options: Options) -> list[Comparison]:
    metrics = [
        Metric("seconds", "s", higher_is_better=False),
        Metric("memory", "MiB of workers", higher_is_better=False, limit=1024),
    ]
    fewer = dataclasses.replace(options, rounds=min(options.rounds, _GROWTH_ROUNDS))
    return _in_turns(broker, _MAX_BY, contents, scenario, metrics, fewer)


def _draw(
    name: str, axis: str, places: list[float], points: list[list[Comparison]], options: Options
) -> None:
    options.output.mkdir(parents=True, exist_ok=True)
    seconds = [each[0] for each in points]
    write_curves(
        options.output / f"{name}.png",
        "Snapshot of a topic with records of 100 B",
        [Curve(f"{axis}: seconds", places, seconds)],
    )


def _in_turns(
    broker: Broker,
    theirs: tuple[str, str],
    contents: Contents,
    scenario: str,
    metrics: list[Metric],
    options: Options,
) -> list[Comparison]:
    with _topic(broker, contents) as topic, contextlib.ExitStack() as stack:
        sides: dict[str, Callable[[], Metrics]] = {}
        for name, kind in (_OURS, theirs):
            reader = Reader(kind, broker, topic, contents.keys)
            stack.callback(reader.close)
            sides[name] = functools.partial(_round, reader, contents.records)
        return compare("spark_state", scenario, metrics, sides, options)


def _round(reader: Reader, records: int) -> Metrics:
    with WorkerMemory(reader.pid) as memory:
        reading = reader.read()
    python = reading.python_seconds + reading.cpu_seconds
    return {
        "rate": records / reading.seconds,
        "seconds": reading.seconds,
        "JVM": reading.java_seconds / records * 1e9,
        "Python": python / records * 1e9,
        "memory": memory.peak_bytes / 2**20,
    }
