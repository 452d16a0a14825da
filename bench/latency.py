"""From `produce` in one process to the consumer in another: 5,000 records/s of 1 KB.

Both ends are confluent-kafka (librdkafka), told not to linger; all else is its default. A record
carries the time at which it was handed to the producer, on the clock that both processes share.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import statistics
import struct
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition

from bench.brokers import Broker, brokers
from bench.harness import Comparison, Metric, Metrics, Options, Stopwatch, compare

_RECORDS_PER_SECOND = 5000
_RECORD_BYTES = 1000
SETTLING_SECONDS = 1.0  # connections are made and buffers grow: not counted
START_SECONDS = 0.5  # from a process being there to the first record
_STAMP = struct.Struct(">q")


def run(options: Options) -> list[Comparison]:
    """One scenario, against both brokers."""
    metrics = (
        Metric("p50", "ms p50", higher_is_better=False, target=1.0),
        Metric("p99", "ms p99", higher_is_better=False, target=1.0),
        Metric("cpu", "broker CPU %", higher_is_better=False),
    )
    with brokers(options) as (ours, theirs):
        sides = {each.name: _round(each, options) for each in (ours, theirs)}
        return compare("latency", "5,000 records/s of 1 KB", metrics, sides, options)


class Latencies(NamedTuple):
    """For every record in turn, in ns: until acknowledged, and until the consumer had it."""

    produce: list[int]
    end_to_end: list[int]


def p99_ms(latencies: list[int]) -> float:
    return statistics.quantiles(latencies, n=100)[98] / 1e6


def _round(broker: Broker, options: Options) -> Callable[[], Metrics]:
    def measure() -> Metrics:
        with broker.topic() as topic, Stopwatch(broker.pid) as watch:
            latencies = measure_latencies(broker, topic, options.seconds).end_to_end
        return {
            "p50": statistics.median(latencies) / 1e6,
            "p99": p99_ms(latencies),
            "cpu": 100 * watch.cpu_seconds / watch.seconds,
        }

    return measure


def measure_latencies(
    broker: Broker, topic: str, seconds: float, *, wants_produce: bool = False
) -> Latencies:
    """Send and receive for so long, after the connections have settled."""
    settling = int(_RECORDS_PER_SECOND * SETTLING_SECONDS)
    count = settling + int(_RECORDS_PER_SECOND * seconds)
    processes = multiprocessing.get_context("spawn")
    ours, its = processes.Pipe()
    process = processes.Process(
        target=_produce,
        args=(broker.address, topic, count, its if wants_produce else None),
        daemon=True,
    )
    process.start()
    end_to_end = _consume(broker, topic, count)[settling:]
    produce = ours.recv()[settling:] if wants_produce else []
    process.join()
    return Latencies(produce, end_to_end)


def _consume(broker: Broker, topic: str, count: int) -> list[int]:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.address,
            "group.id": "bench",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    latencies: list[int] = []
    deadline = time.monotonic() + 60
    with contextlib.closing(consumer):
        consumer.assign([TopicPartition(topic, 0, 0)])
        while len(latencies) < count:
            message = consumer.poll(1.0)
            now = time.monotonic_ns()
            if message is not None and message.error() is None:
                (sent,) = _STAMP.unpack_from(message.value() or b"")
                latencies.append(now - sent)
            elif time.monotonic() > deadline:
                raise RuntimeError(f"{broker.name}: {len(latencies)} of {count} records arrived")
    return latencies


def _produce(address: str, topic: str, count: int, report: Connection | None) -> None:
    """Runs in a process of its own; every record at its time, as far as sleeping allows."""
    producer = Producer({"bootstrap.servers": address, "linger.ms": 0})
    padding = b"v" * (_RECORD_BYTES - _STAMP.size)
    latencies: list[int] = []

    def delivered(error: Any, message: Any) -> None:
        if error is not None:
            raise RuntimeError(f"not delivered: {error}")
        latencies.append(int(message.latency() * 1e9))

    start = time.monotonic() + START_SECONDS
    for number in range(count):
        wait = start + number / _RECORDS_PER_SECOND - time.monotonic()
        if wait > 0:
            time.sleep(wait)
        value = _STAMP.pack(time.monotonic_ns()) + padding
        producer.produce(
            topic, value, partition=0, on_delivery=None if report is None else delivered
        )
        producer.poll(0)
    producer.flush()
    if report is not None:
        report.send(latencies)
