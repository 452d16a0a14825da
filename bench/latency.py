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

from confluent_kafka import Consumer, Producer, TopicPartition

from bench.brokers import Broker, brokers
from bench.harness import Comparison, Metric, Metrics, Options, Stopwatch, compare

_RECORDS_PER_SECOND = 5000
_RECORD_BYTES = 1000
_SETTLING_SECONDS = 1.0  # connections are made and buffers grow: not counted
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


def _round(broker: Broker, options: Options) -> Callable[[], Metrics]:
    count = int(_RECORDS_PER_SECOND * (options.seconds + _SETTLING_SECONDS))
    settling = int(_RECORDS_PER_SECOND * _SETTLING_SECONDS)

    def measure() -> Metrics:
        with broker.topic() as topic:
            process = multiprocessing.get_context("spawn").Process(
                target=_produce, args=(broker.address, topic, count), daemon=True
            )
            process.start()
            with Stopwatch(broker.pid) as watch:
                latencies = _consume(broker, topic, count)[settling:]
            process.join()
        percentiles = statistics.quantiles(latencies, n=100)
        return {
            "p50": percentiles[49] / 1e6,
            "p99": percentiles[98] / 1e6,
            "cpu": 100 * watch.cpu_seconds / watch.seconds,
        }

    return measure


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
                (sent,) = _STAMP.unpack_from(message.value())
                latencies.append(now - sent)
            elif time.monotonic() > deadline:
                raise RuntimeError(f"{broker.name}: {len(latencies)} of {count} records arrived")
    return latencies


def _produce(address: str, topic: str, count: int) -> None:
    """Runs in a process of its own; every record at its time, as far as sleeping allows."""
    producer = Producer({"bootstrap.servers": address, "linger.ms": 0})
    padding = b"v" * (_RECORD_BYTES - _STAMP.size)
    start = time.monotonic() + 0.5
    for number in range(count):
        wait = start + number / _RECORDS_PER_SECOND - time.monotonic()
        if wait > 0:
            time.sleep(wait)
        producer.produce(topic, _STAMP.pack(time.monotonic_ns()) + padding, partition=0)
        producer.poll(0)
    producer.flush()
