"""Transactions of one producer, one after the other: begin, some records, commit.

librdkafka by its Python binding, in the protocol that it speaks, and a bare client that sends what
one of transactions v2 (KIP-890) sends: Produce adds the partition, EndTxn ends it.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable

from confluent_kafka import Producer

from bench.brokers import Broker, brokers
from bench.harness import Comparison, Metric, Metrics, Options, Stopwatch, compare
from bench.offset_commits import find_coordinator
from bench.transactional_client import TransactionalClient
from rig.data.raw import RawClient

_RECORD_BYTES = 100
_COUNTS = (1, 100)
_numbers = itertools.count()


def run(options: Options) -> list[Comparison]:
    """Both clients, both sizes, both brokers."""
    results = []
    metrics = (
        Metric("rate", "transactions/s", target=1.0),
        Metric("cpu", "broker CPU ms/transaction", higher_is_better=False),
    )
    with brokers(options) as (ours, theirs):
        for client, measure in (("librdkafka", _librdkafka), ("v2", _version_2)):
            for count in _COUNTS:
                sides = {each.name: measure(each, count, options) for each in (ours, theirs)}
                name = f"{client}, {count} record{'s' * (count > 1)} each"
                results += compare("transactions", name, metrics, sides, options)
    return results


def _measured(broker: Broker, seconds: float, transaction: Callable[[], None]) -> Metrics:
    transaction()  # connections are made and the producer is known by then
    count = 0
    with Stopwatch(broker.pid) as watch:
        deadline = time.perf_counter() + seconds
        while time.perf_counter() < deadline:
            transaction()
            count += 1
    return {"rate": count / watch.seconds, "cpu": 1000 * watch.cpu_seconds / count}


# -- librdkafka --------------------------------------------------------------------------------


def _librdkafka(broker: Broker, records: int, options: Options) -> Callable[[], Metrics]:
    value = b"v" * _RECORD_BYTES

    def measure() -> Metrics:
        with broker.topic() as topic:
            producer = Producer(
                {
                    "bootstrap.servers": broker.address,
                    "transactional.id": f"bench-{next(_numbers)}",
                    "linger.ms": 0,
                }
            )
            producer.init_transactions(60)

            def transaction() -> None:
                producer.begin_transaction()
                for _ in range(records):
                    producer.produce(topic, value, partition=0)
                producer.commit_transaction(60)

            return _measured(broker, options.seconds, transaction)

    return measure


# -- a bare client ---------------------------------------------------------------------------------


def _version_2(broker: Broker, records: int, options: Options) -> Callable[[], Metrics]:
    def measure() -> Metrics:
        find_coordinator(broker, "bench")
        with (
            broker.topic() as topic,
            contextlib.closing(RawClient(broker.port, "bench", timeout_s=60)) as raw,
        ):
            client = TransactionalClient(broker, raw)
            return _measured(
                broker, options.seconds, lambda: client.transaction(topic, records=records)
            )

    return measure
