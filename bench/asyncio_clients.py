"""`drumlin.aio` beside aiokafka and our synchronous client: single records, and consumers.

All in this process, one after the other, so that its processor time is that of the client at work.
Each side writes idempotently, in batches of 64 KiB that wait for up to 10 ms, and reads everything
from the first offset on, without a group.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

import aiokafka

import drumlin
from bench.brokers import Broker
from bench.brokers import drumlin as own_broker
from bench.harness import Comparison, Metric, Metrics, Options, compare
from drumlin import aio

_METRICS = (
    Metric("rate", "records/s"),
    Metric("cpu", "CPU s/million records", higher_is_better=False),
)
_LINGER_MS = 10
_BATCH_BYTES = 64 << 10

#: Does something with all records, and returns how many there were.
Work = Callable[[Broker, str, "Scenario"], int]


class Scenario(NamedTuple):
    name: str
    record_bytes: int
    records: int

    @property
    def value(self) -> bytes:
        return b"x" * self.record_bytes


def run(options: Options) -> list[Comparison]:
    """Producing and consuming, beside each of the other two."""
    results = []
    with own_broker(options) as broker:
        for size_bytes, count in ((100, 50_000), (1000, 30_000)):
            scenario = Scenario(f"{size_bytes} B", size_bytes, int(count * options.scale))
            for job, sides in (("produce", _PRODUCERS), ("consume", _CONSUMERS)):
                with broker.topic() as topic:
                    if job == "consume":
                        _sync_produce(broker, topic, scenario)
                    ours = _round(sides["drumlin.aio"], broker, topic, scenario)
                    for name in ("aiokafka", "drumlin.connect"):
                        theirs = _round(sides[name], broker, topic, scenario)
                        results += compare(
                            "asyncio_clients",
                            f"{job} {scenario.name}, beside {name}",
                            _METRICS,
                            {"drumlin.aio": ours, name: theirs},
                            options,
                        )
    return results


def _round(work: Work, broker: Broker, topic: str, scenario: Scenario) -> Callable[[], Metrics]:
    def measure() -> Metrics:
        started, cpu_started = time.perf_counter(), time.process_time()
        count = work(broker, topic, scenario)
        seconds, cpu_s = time.perf_counter() - started, time.process_time() - cpu_started
        return {"rate": count / seconds, "cpu": cpu_s / count * 1e6}

    return measure


def _in_loop(work: Callable[[Broker, str, Scenario], Coroutine[Any, Any, int]]) -> Work:
    return lambda *given: asyncio.run(work(*given))


# -- producing -----------------------------------------------------------------------------------


def _sync_produce(broker: Broker, topic: str, scenario: Scenario) -> int:
    value = scenario.value
    with (
        drumlin.connect(broker.address) as client,
        client.writer(topic, linger_ms=_LINGER_MS, batch_bytes=_BATCH_BYTES) as writer,
    ):
        for _ in range(scenario.records):
            writer.send(value)
        writer.flush()
        return writer.acknowledged


async def _aio_produce(broker: Broker, topic: str, scenario: Scenario) -> int:
    value = scenario.value
    async with (
        aio.connect(broker.address) as client,
        client.writer(topic, linger_ms=_LINGER_MS, batch_bytes=_BATCH_BYTES) as writer,
    ):
        for _ in range(scenario.records):
            await writer.send(value)
        await writer.flush()
        return writer.acknowledged


async def _aiokafka_produce(broker: Broker, topic: str, scenario: Scenario) -> int:
    value = scenario.value
    async with aiokafka.AIOKafkaProducer(
        bootstrap_servers=broker.address,
        linger_ms=_LINGER_MS,
        max_batch_size=_BATCH_BYTES,
        enable_idempotence=True,
    ) as producer:
        for _ in range(scenario.records):
            await producer.send(topic, value)
        await producer.flush()
    return scenario.records


# -- consuming -----------------------------------------------------------------------------------


def _sync_consume(broker: Broker, topic: str, scenario: Scenario) -> int:
    count = 0
    with (
        drumlin.connect(broker.address) as client,
        client.consumer(assign=[(topic, 0)]) as consumer,
    ):
        while count < scenario.records:
            batch = consumer.poll()
            count += 0 if batch is None else batch.num_rows
    return count


async def _aio_consume(broker: Broker, topic: str, scenario: Scenario) -> int:
    count = 0
    async with (
        aio.connect(broker.address) as client,
        client.consumer(assign=[(topic, 0)]) as consumer,
    ):
        while count < scenario.records:
            batch = await consumer.poll()
            count += 0 if batch is None else batch.num_rows
    return count


async def _aiokafka_consume(broker: Broker, topic: str, scenario: Scenario) -> int:
    count = 0
    consumer = aiokafka.AIOKafkaConsumer(
        bootstrap_servers=broker.address,
        auto_offset_reset="earliest",
        max_partition_fetch_bytes=8 << 20,
    )
    async with consumer:
        consumer.assign([aiokafka.TopicPartition(topic, 0)])
        while count < scenario.records:
            found = await consumer.getmany(timeout_ms=1000)
            count += sum(len(records) for records in found.values())
    return count


_PRODUCERS: dict[str, Work] = {
    "drumlin.aio": _in_loop(_aio_produce),
    "drumlin.connect": _sync_produce,
    "aiokafka": _in_loop(_aiokafka_produce),
}
_CONSUMERS: dict[str, Work] = {
    "drumlin.aio": _in_loop(_aio_consume),
    "drumlin.connect": _sync_consume,
    "aiokafka": _in_loop(_aiokafka_consume),
}
