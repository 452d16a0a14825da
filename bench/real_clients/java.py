"""Kafka's own producer-perf-test and consumer-perf-test: 12 partitions, 1 KB, every codec."""

from __future__ import annotations

import contextlib
import functools
import re
import subprocess
from collections.abc import Callable, Iterator, Sequence

from bench.brokers import Broker
from bench.harness import Comparison, Metric, Metrics, Options, Stopwatch, compare
from rig.jvm.jars import java
from rig.servers.apache_kafka import kafka_classpath

PARTITIONS = 12
_RECORD_BYTES = 1000
#: About how many records a second to expect: how many make a round.
_PER_SECOND = {"none": 100_000, "gzip": 15_000, "snappy": 60_000, "lz4": 60_000, "zstd": 50_000}
_CONSUMED_PER_SECOND = 300_000
_RATE = re.compile(r"([\d.]+) records/sec \(")
_PLAIN_GOAL, _CODEC_GOAL = 1.3, 1.1
_PLAIN_CPU_GOAL, _CODEC_CPU_GOAL = 0.5, 1.0


def rows() -> Iterator[tuple[str, Callable[[Sequence[Broker], Options], list[Comparison]]]]:
    for acks in ("all", "1"):
        for codec in _PER_SECOND:
            yield f"java_produce_{acks}_{codec}", functools.partial(_produce, acks, codec)
    for codec in _PER_SECOND:
        yield f"java_consume_{codec}", functools.partial(_consume, codec)


def _metrics(codec: str) -> tuple[Metric, ...]:
    is_plain = codec == "none"
    return (
        Metric("rate", "records/s", target=_PLAIN_GOAL if is_plain else _CODEC_GOAL),
        Metric(
            "cpu",
            "broker CPU µs/record",
            higher_is_better=False,
            target=_PLAIN_CPU_GOAL if is_plain else _CODEC_CPU_GOAL,
        ),
    )


def _produce(
    acks: str, codec: str, brokers: Sequence[Broker], options: Options
) -> list[Comparison]:
    count = max(1000, int(options.seconds * _PER_SECOND[codec]))

    def round_of(broker: Broker) -> Callable[[], Metrics]:
        def measure() -> Metrics:
            with broker.topic(PARTITIONS) as topic, Stopwatch(broker.pid) as watch:
                rate = _run_producer(broker, topic, count, acks, codec)
            return {"rate": rate, "cpu": 1e6 * watch.cpu_seconds / (count + count // 2)}

        return measure

    sides = {each.name: round_of(each) for each in brokers}
    scenario = f"Java's producer, acks={acks}, {codec}"
    return compare("real_clients", scenario, _metrics(codec), sides, options)


def _run_producer(broker: Broker, topic: str, count: int, acks: str, codec: str) -> float:
    """Records a second, as the tool says it: without the start of its virtual machine."""
    said = _run(
        "ProducerPerformance",
        "--topic",
        topic,
        "--throughput",
        "-1",
        "--record-size",
        str(_RECORD_BYTES),
        "--num-records",
        str(count + count // 2),
        "--warmup-records",
        str(count // 2),
        "--command-property",
        f"bootstrap.servers={broker.address}",
        f"acks={acks}",
        f"compression.type={codec}",
    )
    rates = _RATE.findall(said)
    if not rates:
        raise RuntimeError(f"ProducerPerformance against {broker.name} said: {said[-500:]}")
    return float(rates[-1])


def _consume(codec: str, brokers: Sequence[Broker], options: Options) -> list[Comparison]:
    per_second = _CONSUMED_PER_SECOND if codec != "gzip" else _CONSUMED_PER_SECOND // 4
    count = max(1000, int(options.seconds * per_second))

    def round_of(broker: Broker, topic: str) -> Callable[[], Metrics]:
        def measure() -> Metrics:
            with Stopwatch(broker.pid) as watch:
                rate = _run_consumer(broker, topic, count)
            return {"rate": rate, "cpu": 1e6 * watch.cpu_seconds / count}

        return measure

    with contextlib.ExitStack() as stack:
        sides = {}
        for each in brokers:
            topic = stack.enter_context(each.topic(PARTITIONS))
            _run_producer(each, topic, count, "1", codec)
            sides[each.name] = round_of(each, topic)
        scenario = f"Java's consumer, {codec}"
        return compare("real_clients", scenario, _metrics(codec), sides, options)


def _run_consumer(broker: Broker, topic: str, count: int) -> float:
    """Records a second of fetching: without the start, and without joining the group."""
    said = _run(
        "ConsumerPerformance",
        "--bootstrap-server",
        broker.address,
        "--topic",
        topic,
        "--num-records",
        str(count),
        "--timeout",
        "60000",
        "--hide-header",
    )
    columns = said.strip().splitlines()[-1].split(",")
    if len(columns) != 10 or int(columns[4]) < count:
        raise RuntimeError(f"ConsumerPerformance against {broker.name} said: {said[-500:]}")
    return float(columns[-1])


def _run(tool: str, *arguments: str) -> str:
    command = [java(), "-Xmx512M", "-cp", kafka_classpath(), f"org.apache.kafka.tools.{tool}"]
    done = subprocess.run(
        [*command, *arguments], capture_output=True, text=True, check=False, timeout=600
    )
    if done.returncode != 0:
        raise RuntimeError(f"{tool} failed: {(done.stdout + done.stderr)[-500:]}")
    return done.stdout
