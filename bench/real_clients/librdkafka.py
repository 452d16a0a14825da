"""librdkafka by its Python binding: a producer and a consumer of 12 partitions, and one record."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable, Iterator, Sequence

from confluent_kafka import Consumer, Producer, TopicPartition

from bench.brokers import Broker
from bench.harness import Comparison, Metric, Metrics, Options, Stopwatch, compare
from bench.latency import measure_latencies
from bench.load import GENERATOR
from bench.real_clients.frames import noise

_PARTITIONS = 12
_RECORD_BYTES = 1000
_VALUES = 1000
_FILLED_PER_SECOND = 150_000
_AT_ONCE = 1000
_P50_GOAL = 1.3
_LIMIT_S = 120
_METRICS = (
    Metric("rate", "records/s", target=1.0),
    Metric("cpu", "broker CPU µs/record", higher_is_better=False, target=1.0),
    GENERATOR,
)


def rows() -> Iterator[tuple[str, Callable[[Sequence[Broker], Options], list[Comparison]]]]:
    yield "librdkafka_produce", _produce
    yield "librdkafka_consume", _consume
    yield "single_record", _single


def _produce(brokers: Sequence[Broker], options: Options) -> list[Comparison]:
    values = [noise(_RECORD_BYTES) for _ in range(_VALUES)]

    def round_of(broker: Broker) -> Callable[[], Metrics]:
        def measure() -> Metrics:
            with broker.topic(_PARTITIONS) as topic, Stopwatch(broker.pid) as watch:
                count = _send(broker, topic, values, options.seconds, None)
            return _per_record(watch, count)

        return measure

    sides = {each.name: round_of(each) for each in brokers}
    return compare("real_clients", "librdkafka's producer, 1 KB", _METRICS, sides, options)


def _send(
    broker: Broker, topic: str, values: list[bytes], seconds: float, count_max: int | None
) -> int:
    """Until the time or the number is over, and all is acknowledged."""
    producer = Producer({"bootstrap.servers": broker.address, "queue.buffering.max.messages": 0})
    deadline, count = time.perf_counter() + seconds, 0
    while time.perf_counter() < deadline and (count_max is None or count < count_max):
        for number in range(count, count + _AT_ONCE):
            while True:
                try:
                    producer.produce(topic, values[number % _VALUES], partition=number % 12)
                    break
                except BufferError:
                    producer.poll(0.01)
        count += _AT_ONCE
        producer.poll(0)
    if producer.flush(_LIMIT_S):
        raise RuntimeError(f"{broker.name} did not acknowledge everything")
    return count


def _per_record(watch: Stopwatch, count: int) -> Metrics:
    return {
        "rate": count / watch.seconds,
        "cpu": 1e6 * watch.cpu_seconds / count,
        "generator": 100 * watch.own_cpu_seconds / watch.seconds,
    }


def _consume(brokers: Sequence[Broker], options: Options) -> list[Comparison]:
    values = [noise(_RECORD_BYTES) for _ in range(_VALUES)]
    count = _AT_ONCE * max(1, int(options.seconds * _FILLED_PER_SECOND / _AT_ONCE))

    def round_of(broker: Broker, topic: str) -> Callable[[], Metrics]:
        def measure() -> Metrics:
            with Stopwatch(broker.pid) as watch:
                _receive(broker, topic, count)
            return _per_record(watch, count)

        return measure

    with contextlib.ExitStack() as stack:
        sides = {}
        for each in brokers:
            topic = stack.enter_context(each.topic(_PARTITIONS))
            _send(each, topic, values, _LIMIT_S, count)
            sides[each.name] = round_of(each, topic)
        return compare("real_clients", "librdkafka's consumer, 1 KB", _METRICS, sides, options)


def _receive(broker: Broker, topic: str, count: int) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.address,
            "group.id": "bench",
            "enable.auto.commit": False,
            "fetch.queue.backoff.ms": 1,  # else it pauses for a second when its queue is full
            "queued.min.messages": 1_000_000,
        }
    )
    deadline = time.monotonic() + _LIMIT_S
    with contextlib.closing(consumer):
        consumer.assign([TopicPartition(topic, each, 0) for each in range(_PARTITIONS)])
        received = 0
        while received < count:
            received += len(consumer.consume(_AT_ONCE, timeout=1.0))
            if time.monotonic() > deadline:
                raise RuntimeError(f"{broker.name}: {received} of {count} records arrived")


def _single(brokers: Sequence[Broker], options: Options) -> list[Comparison]:
    metrics = (Metric("p50", "ms p50", higher_is_better=False, target=_P50_GOAL),)

    def round_of(broker: Broker) -> Callable[[], Metrics]:
        def measure() -> Metrics:
            with broker.topic() as topic:
                latencies = measure_latencies(broker, topic, options.seconds).end_to_end
            return {"p50": statistics.median(latencies) / 1e6}

        return measure

    sides = {each.name: round_of(each) for each in brokers}
    return compare("real_clients", "single records, 5,000/s", metrics, sides, options)
